import type { RawObject } from '../../kubernetes/source.ts';
import { HAMI_RESOURCE, isAmount, integerIn } from './hami-node.ts';
import { amountAt, listAt, recordAt, textAt } from '../../kubernetes/raw-fields.ts';

/** HAMi's scheduler lists a pod's shares in this annotation (docs/explanation/gpus.md#hami). */
const GIVEN = 'hami.io/vgpu-devices-allocated';

/** Resources that say how much of each device: MiB, percent of its memory, percent of its cores. */
export const HAMI_MEMORY = 'nvidia.com/gpumem';
export const HAMI_PERCENT = 'nvidia.com/gpumem-percentage';
export const HAMI_CORES = 'nvidia.com/gpucores';

/** A share of one device that is allocated to a container. */
export interface HamiShare {
  readonly uuid: string;
  /** MiB; 0: no limit. */
  readonly memory: number;
  /** Percent; 0: no limit. */
  readonly cores: number;
  /** It is an init container's, which ends before the others start. */
  readonly init?: true;
}

/** What a container requests: this much of each of `count` devices. */
export interface HamiQuery {
  readonly count: number;
  /** MiB. */
  readonly memory?: number;
  /** Percent of the device's memory. */
  readonly percent?: number;
  /** Percent of the device's cores. */
  readonly cores?: number;
  readonly init?: true;
}

/** What a pod has of HAMi's devices: the allocated shares and the requests. */
export interface HamiPod {
  readonly given: readonly HamiShare[];
  readonly requested: readonly HamiQuery[];
}

const MOST_TEXT = 16_384;
const MOST_SHARES = 128;
const MOST_QUERIES = 256;
const MOST_NAME = 128;
const NANOS = 1_000_000_000n;

/**
 * Reads a pod's shares of HAMi's devices. Undefined without an allocation unless a request limits
 * memory or cores: {@link HAMI_RESOURCE} alone is no sign of HAMi.
 */
export function hamiPod(metadata: RawObject, spec: RawObject): HamiPod | undefined {
  const containers = listAt(spec, 'containers');
  const inits = listAt(spec, 'initContainers');
  const queries = [
    ...inits.flatMap((container) => queryOf(container, isSidecar(container) ? {} : { init: true })),
    ...containers.flatMap((container) => queryOf(container, {})),
  ];
  const text = textAt(recordAt(metadata, 'annotations'), GIVEN);
  const given =
    text === undefined || text.length > MOST_TEXT ? [] : sharesIn(text, inits, containers);
  const limits = queries.some(({ memory, percent, cores }) => memory ?? percent ?? cores);
  if (given.length === 0 && !limits) return undefined;
  return { given, requested: bounded(queries) };
}

/** Requests beyond the limit are summed as one request for full devices. */
function bounded(queries: readonly HamiQuery[]): readonly HamiQuery[] {
  const remainder = queries.slice(MOST_QUERIES).reduce((sum, { count }) => sum + count, 0);
  const first = queries.slice(0, MOST_QUERIES);
  return remainder === 0 ? first : [...first, { count: remainder }];
}

function isSidecar(container: RawObject): boolean {
  return container['restartPolicy'] === 'Always';
}

function queryOf(container: RawObject, when: { readonly init?: true }): readonly HamiQuery[] {
  const resources = recordAt(container, 'resources');
  const requestedAmount = (name: string): number | undefined => {
    const nanos =
      amountAt(recordAt(resources, 'requests'), name) ??
      amountAt(recordAt(resources, 'limits'), name);
    return nanos === undefined || nanos === 0n ? undefined : Number(nanos / NANOS);
  };
  const amounts = {
    memory: requestedAmount(HAMI_MEMORY),
    percent: requestedAmount(HAMI_PERCENT),
    cores: requestedAmount(HAMI_CORES),
  };
  const isAmount = Object.values(amounts).some((amount) => amount !== undefined);
  // HAMi adds one device where a container requests only memory or cores.
  const count = requestedAmount(HAMI_RESOURCE) ?? (isAmount ? 1 : 0);
  return count === 0 ? [] : [{ count, ...amounts, ...when }];
}

/**
 * Reads the annotation. Semicolons separate containers, with init containers first if the list is
 * longer than the containers. Colons separate the devices of a container: `uuid,type,MiB,cores`.
 */
function sharesIn(
  text: string,
  inits: readonly RawObject[],
  containers: readonly RawObject[],
): readonly HamiShare[] {
  const parts = text.replace(/;$/, '').split(';');
  const first = parts.length > containers.length ? inits.length : 0;
  return parts
    .flatMap((part, index) => {
      const init = inits[index];
      const ends = index < first && init !== undefined && !isSidecar(init);
      return part.split(':').flatMap((entry) => shareOf(entry, ends ? { init: true } : {}));
    })
    .slice(0, MOST_SHARES);
}

function shareOf(entry: string, when: { readonly init?: true }): readonly HamiShare[] {
  const [named = '', type, memory, cores] = entry.split(',');
  // Under MIG the instance follows in brackets.
  const uuid = named.trim().replace(/\[.*$/, '');
  if (uuid === '' || uuid.length > MOST_NAME || type === undefined) return [];
  const [mib, percent] = [integerIn(memory), integerIn(cores)];
  if (!isAmount(mib) || !isAmount(percent)) return [];
  return [{ uuid, memory: mib, cores: percent, ...when }];
}

/** Returns the pod with the larger allocation, memory before cores; no limit is the most. */
export function greaterShares(
  before: HamiPod | undefined,
  now: HamiPod | undefined,
): HamiPod | undefined {
  if (before === undefined || now === undefined) return before ?? now;
  const more =
    totalOf(now, 'memory') - totalOf(before, 'memory') ||
    totalOf(now, 'cores') - totalOf(before, 'cores');
  return { ...now, given: more > 0 ? now.given : before.given };
}

function totalOf({ given }: HamiPod, measure: 'memory' | 'cores'): number {
  return given.reduce((sum, share) => sum + (share[measure] === 0 ? 2 ** 40 : share[measure]), 0);
}
