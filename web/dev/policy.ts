// The content security policy of the real server, for the built page in `npm run preview`: what the policy forbids fails
// there too. The same text as `POLICY` in crates/api/src/access/guard.rs.

import type { Plugin } from 'vite';

const POLICY = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

export function pagePolicy(): Plugin {
  return {
    name: 'loginson-policy',
    configurePreviewServer: (server) => {
      server.middlewares.use((_request, response, next) => {
        response.setHeader('Content-Security-Policy', POLICY);
        next();
      });
    },
  };
}
