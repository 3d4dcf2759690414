import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';
import { mockServer } from './dev/mock.ts';
import { pagePolicy } from './dev/policy.ts';
import { stamp } from './stamp.ts';

// `npm run dev` and `npm run preview` use the server that LOGINSON_URL names; without it,
// dev/mock.ts in its place.
const target = process.env['LOGINSON_URL'];
const proxied = ['/select', '/loki', '/insert', '/api', '/metrics', '/health', '/ready'];
const proxy = target
  ? Object.fromEntries(
      proxied.map((path) => [path, { target, changeOrigin: true, headers: { origin: new URL(target).origin } }]),
    )
  : undefined;

export default defineConfig({
  base: '/',
  plugins: [svelte(), stamp(), pagePolicy(), ...(target || process.env['VITEST'] ? [] : [mockServer()])],
  build: { outDir: 'dist', assetsDir: 'assets', assetsInlineLimit: 0, target: 'es2022', sourcemap: false, chunkSizeWarningLimit: 600 },
  server: { host: '127.0.0.1', port: 5173, ...(proxy ? { proxy } : {}) },
  preview: { host: '127.0.0.1', port: 4173, ...(proxy ? { proxy } : {}) },
  test: { include: ['test/**/*.test.ts'], environment: 'node' },
});
