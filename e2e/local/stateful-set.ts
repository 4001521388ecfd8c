import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

const FILE = join(import.meta.dirname, '../../config/operator/stateful-set.yaml');
const HUB_FILE = join(import.meta.dirname, '../../config/hub/workload/memory.yaml');
const MEBIBYTE = 1024 * 1024;
const GIBIBYTE = 1024 * MEBIBYTE;

/** How the installation starts the operator's process. */
export interface ShippedProcess {
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

/** Reads the StatefulSet of the base installation. */
export function shippedProcess(): ShippedProcess {
  return read(FILE);
}

/** What the installation of a hub says otherwise. */
export function shippedHub(): ShippedProcess {
  return read(HUB_FILE);
}

function read(file: string): ShippedProcess {
  const workload = parse(readFileSync(file, 'utf8')) as Workload;
  const [container] = workload.spec.template.spec.containers;
  const [, size, unit] = /^(\d+)([MG])i$/.exec(container?.resources.limits.memory ?? '') ?? [];
  if (container === undefined || size === undefined) {
    throw new Error(`workload: ${file}: no memory limit in Mi or Gi`);
  }
  return {
    environment: Object.fromEntries(
      container.env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])),
    ),
    memoryLimitBytes: Number(size) * (unit === 'G' ? GIBIBYTE : MEBIBYTE),
  };
}
