import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

const ROOT = join(import.meta.dirname, '../../..');

/** How the image and its installation start the operator. */
export interface ShippedCommand {
  /** Options of Node itself, for the places given. */
  readonly options: readonly string[];
  /** What the StatefulSet sets, but for what depends on the cluster. */
  readonly environment: Readonly<Record<string, string>>;
  readonly memoryLimitBytes: number;
}

interface Workload {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: readonly {
          readonly env: readonly { readonly name: string; readonly value?: string }[];
          readonly resources: { readonly limits: { readonly memory: string } };
        }[];
      };
    };
  };
}

/** Reads Dockerfile and StatefulSet. `places` says where the image's directories are here. */
export function shippedCommand(places: Readonly<Record<string, string>>): ShippedCommand {
  const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
  const [, entry = '[]'] =
    /^ENTRYPOINT (\[[\s\S]*?\])$/m.exec(dockerfile.replaceAll('\\\n', '')) ?? [];
  const words = JSON.parse(entry) as readonly string[];
  const text = readFileSync(join(ROOT, 'config/operator/stateful-set.yaml'), 'utf8');
  const [container] = (parse(text) as Workload).spec.template.spec.containers;
  const [, mebibytes] = /^(\d+)Mi$/.exec(container?.resources.limits.memory ?? '') ?? [];
  if (container === undefined || mebibytes === undefined) {
    throw new Error('hostile: config/operator/stateful-set.yaml: no memory limit in Mi');
  }
  return {
    options: words
      .filter((word) => word.startsWith('--'))
      .map((word) => word.replace(/=(.*)$/, (_, path: string) => `=${places[path] ?? path}`)),
    environment: Object.fromEntries(
      container.env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])),
    ),
    memoryLimitBytes: Number(mebibytes) * 1024 * 1024,
  };
}
