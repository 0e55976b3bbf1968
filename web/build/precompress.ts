// Writes a .br and a .gz file next to every text file of the build, so that the server never compresses anything.

import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import type { Plugin } from "vite";

const TEXT = /\.(js|css|svg|json|webmanifest)$/;
const MIN_BYTES = 1024; // below this a compressed file saves nothing

export function precompress(): Plugin {
  return {
    name: "artel-precompress",
    apply: "build",
    async writeBundle({ dir }) {
      const folder = join(dir ?? "", "assets");
      const names = (await readdir(folder)).filter((name) => TEXT.test(name));
      await Promise.all(names.map((name) => compressFile(join(folder, name))));
    },
  };
}

async function compressFile(path: string): Promise<void> {
  const content = await readFile(path);
  if (content.length < MIN_BYTES) return;
  const quality = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
  const [br, gz] = await Promise.all([
    promisify(brotliCompress)(content, { params: quality }),
    promisify(gzip)(content, { level: 9 }),
  ]);
  await Promise.all([writeFile(`${path}.br`, br), writeFile(`${path}.gz`, gz)]);
}
