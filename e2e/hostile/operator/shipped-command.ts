import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ShippedProcess, shippedProcess } from '../../local/stateful-set.ts';

const ROOT = join(import.meta.dirname, '../../..');

/** How the image and its installation start the operator. */
export interface ShippedCommand extends ShippedProcess {
  /** Options of Node itself, for the places given. */
  readonly options: readonly string[];
}

/** Reads Dockerfile and StatefulSet. `places` says where the image's directories are here. */
export function shippedCommand(places: Readonly<Record<string, string>>): ShippedCommand {
  const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
  const [, entry = '[]'] =
    /^ENTRYPOINT (\[[\s\S]*?\])$/m.exec(dockerfile.replaceAll('\\\n', '')) ?? [];
  const words = JSON.parse(entry) as readonly string[];
  return {
    ...shippedProcess(),
    options: words
      .filter((word) => word.startsWith('--'))
      .map((word) => word.replace(/=(.*)$/, (_, path: string) => `=${places[path] ?? path}`)),
  };
}
