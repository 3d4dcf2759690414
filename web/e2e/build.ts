// Builds the page once before all tests.

import { fileURLToPath } from 'node:url';
import { build } from 'vite';

export default async function buildPage(): Promise<void> {
  await build({ root: fileURLToPath(new URL('..', import.meta.url)), logLevel: 'warn' });
}
