// Writes `page.sources` next to the built page: the checksum of its sources.
// `crates/api/build.rs` embeds `dist` only if that is the checksum of the current sources; both
// compute it in the same way.

import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { crc32 } from 'node:zlib';
import type { Plugin } from 'vite';

const ROOT = dirname(fileURLToPath(import.meta.url));
const SOURCES = ['index.html', 'package-lock.json', 'package.json', 'src', 'stamp.ts', 'svelte.config.js', 'tsconfig.json', 'vite.config.ts'];

function filesBelow(path: string): string[] {
  if (!statSync(join(ROOT, path)).isDirectory()) return [path];
  return readdirSync(join(ROOT, path)).flatMap((name) => filesBelow(`${path}/${name}`));
}

/** CRC-32 of all sources: of each, in the order of their paths, the path, its length and its bytes. */
export function checksum(): string {
  const files = SOURCES.flatMap(filesBelow).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  let sum = 0;
  for (const file of files) {
    const bytes = readFileSync(join(ROOT, file));
    sum = crc32(bytes, crc32(`${file}\n${bytes.length}\n`, sum));
  }
  return sum.toString(16).padStart(8, '0');
}

export function stamp(): Plugin {
  return {
    name: 'loginson-stamp',
    apply: 'build',
    writeBundle: ({ dir }) => {
      if (dir) writeFileSync(join(dir, 'page.sources'), `${checksum()}\n`);
    },
  };
}
