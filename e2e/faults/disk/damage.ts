import { readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createRandom } from '../random.ts';

/** Changes stored bytes of a directory that nobody has open; tells what it did. */
export function damageDirectory(directory: string, kind: 'flip' | 'tear', seed: number): string {
  const random = createRandom(seed);
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => {
      const found = statSync(join(directory, name));
      // Nothing is kept in these.
      return found.isFile() && found.size > 0 && !/(^|\/)(LOG|LOG\.old|LOCK|RESERVE)$/.test(name);
    })
    .toSorted();
  const name = random.pick(files);
  const path = join(directory, name);
  const content = readFileSync(path);
  const offset = random.between(0, content.length - 1);
  if (kind === 'tear') {
    truncateSync(path, offset);
    return `${name} cut to ${offset} of ${content.length} bytes`;
  }
  const bit = random.between(0, 7);
  content.writeUInt8(content.readUInt8(offset) ^ (1 << bit), offset);
  writeFileSync(path, content);
  return `${name} bit ${bit} of byte ${offset} flipped`;
}
