import type { RawObject } from '../../kubernetes/source.ts';
import { larger } from '../../model/decimal.ts';
import { amountAt, conditionOf, listAt, recordAt, textAt } from '../../kubernetes/raw-fields.ts';
import { type Api, API_OF_HOST, createSharedValues } from './shared-values.ts';

/** The resources that a pod takes by its requests. */
export interface Requests {
  /** Nanocores. */
  readonly cpu: bigint;
  /** Nano-bytes, so that `128974848000m` stays exact. */
  readonly memory: bigint;
  /** Extended resources in units, in name order, zeros left out. */
  readonly extended: ReadonlyMap<string, number>;
}

/** Amounts by resource name, in nano-units. */
type Amounts = Map<string, bigint>;

const NANOS_PER_UNIT = 1_000_000_000n;

const sharedRequests = createSharedValues<Requests>();

/**
 * Returns the effective requests of a pod, computed as the scheduler does
 * (docs/explanation/metering.md#effective-requests; KEP-753 sidecars, KEP-2837 pod-level resources,
 * KEP-1287 in-place resize).
 * 1. The larger of two sums counts: containers plus sidecars, or any init container plus the
 *    sidecars before it.
 * 2. Pod-level values replace the sum for CPU, memory and huge pages.
 * 3. Overhead comes on top.
 * 4. Extended resources that a resource claim serves are left out, because the claim is metered
 *    (KEP-5004).
 */
export function effectiveRequests(
  spec: RawObject,
  status: RawObject,
  api: Api = API_OF_HOST,
): Requests {
  const total = containerAmounts(spec, status);
  for (const [name, amount] of podLevelAmounts(spec, status)) total.set(name, amount);
  add(total, amountsAt(spec, 'overhead'));
  for (const name of servedByClaim(status)) total.delete(name);
  return shareRequests(
    api,
    total.get('cpu') ?? 0n,
    total.get('memory') ?? 0n,
    extendedOf(total).toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );
}

/** Returns the shared value of an API with these amounts; `extended` must be in name order. */
function shareRequests(
  api: Api,
  cpu: bigint,
  memory: bigint,
  extended: readonly (readonly [string, number])[],
): Requests {
  const counts = extended.flatMap(([name, count]) => [name, String(count)]);
  return sharedRequests(api, [String(cpu), String(memory), ...counts], () => ({
    cpu,
    memory,
    extended: new Map(extended),
  }));
}

/** True when both have the same amounts, whether or not they are the same object. */
export function sameRequests(a: Requests, b: Requests): boolean {
  if (a === b) return true;
  if (a.cpu !== b.cpu || a.memory !== b.memory || a.extended.size !== b.extended.size) return false;
  return [...a.extended].every(([name, count]) => b.extended.get(name) === count);
}

/** Returns the smaller of each amount, as `a` or `b` itself where one of them equals that. */
export function leastRequests(a: Requests, b: Requests): Requests {
  const extended = [...a.extended].flatMap(([name, count]) => {
    const both = Math.min(count, b.extended.get(name) ?? 0);
    return both === 0 ? [] : [[name, both] as const];
  });
  const least = {
    cpu: a.cpu < b.cpu ? a.cpu : b.cpu,
    memory: a.memory < b.memory ? a.memory : b.memory,
    extended: new Map(extended),
  };
  return [a, b].find((each) => sameRequests(each, least)) ?? least;
}

function containerAmounts(spec: RawObject, status: RawObject): Amounts {
  const resize = resizeOf(status);
  const total: Amounts = new Map();
  const sidecars: Amounts = new Map();
  const initPeak: Amounts = new Map();
  for (const container of listAt(spec, 'containers')) add(total, amountsOf(container, resize));
  for (const container of listAt(spec, 'initContainers')) {
    if (container['restartPolicy'] === 'Always') {
      const sidecar = amountsOf(container, resize);
      add(total, sidecar);
      add(sidecars, sidecar);
      continue;
    }
    const running: Amounts = new Map(sidecars);
    add(running, requestsOf(container));
    raise(initPeak, running);
  }
  raise(total, initPeak);
  return total;
}

/** Names that claims serve. A node serves one name by a device plugin or by claims, never both. */
function servedByClaim(status: RawObject): readonly string[] {
  const mappings = listAt(recordAt(status, 'extendedResourceClaimStatus'), 'requestMappings');
  return mappings.flatMap((mapping) => textAt(mapping, 'resourceName') ?? []);
}

/** The pod's own requests: CPU, memory and huge pages. Other names keep the containers' sum. */
function podLevelAmounts(spec: RawObject, status: RawObject): Amounts {
  const wanted = amountsAt(recordAt(spec, 'resources'), 'requests');
  const infeasible = isInfeasible(status);
  const podLevel: Amounts = new Map();
  for (const [name, amount] of wanted) if (isPodLevel(name)) podLevel.set(name, amount);
  if (podLevel.size === 0) return podLevel;
  const granted: Amounts = new Map();
  raise(granted, amountsAt(recordAt(status, 'resources'), 'requests'));
  raise(granted, amountsAt(status, 'allocatedResources'));
  for (const [name, amount] of podLevel) {
    const allocated = granted.get(name);
    if (allocated === undefined) continue;
    podLevel.set(name, infeasible ? allocated : larger(amount, allocated));
  }
  return podLevel;
}

interface Resize {
  readonly statuses: ReadonlyMap<unknown, RawObject>;
  readonly infeasible: boolean;
}

function resizeOf(status: RawObject): Resize {
  const all = [...listAt(status, 'containerStatuses'), ...listAt(status, 'initContainerStatuses')];
  const statuses = new Map(
    all.filter((entry) => 'resources' in entry).map((entry) => [entry['name'], entry]),
  );
  return { statuses, infeasible: isInfeasible(status) };
}

function isInfeasible(status: RawObject): boolean {
  return conditionOf(status, 'PodResizePending')?.['reason'] === 'Infeasible';
}

/**
 * Amounts of one container. During a resize the largest of requested, allocated and actuated
 * counts; an infeasible request does not count.
 */
function amountsOf(container: RawObject, resize: Resize): Amounts {
  const requested = requestsOf(container);
  const status = resize.statuses.get(container['name']);
  if (status === undefined) return requested;
  const amounts: Amounts = resize.infeasible ? new Map() : requested;
  raise(amounts, amountsAt(recordAt(status, 'resources'), 'requests'));
  raise(amounts, amountsAt(status, 'allocatedResources'));
  return amounts;
}

/** A container's requests. A limit without a request is one: the API sets it, but not always. */
function requestsOf(container: RawObject): Amounts {
  const resources = recordAt(container, 'resources');
  const amounts = amountsAt(resources, 'limits');
  for (const [name, amount] of amountsAt(resources, 'requests')) amounts.set(name, amount);
  return amounts;
}

function amountsAt(parent: RawObject, key: string): Amounts {
  const record = recordAt(parent, key);
  const amounts: Amounts = new Map();
  for (const name of Object.keys(record)) {
    const amount = amountAt(record, name);
    if (amount !== undefined) amounts.set(name, amount);
  }
  return amounts;
}

function add(total: Amounts, more: Amounts): void {
  for (const [name, amount] of more) total.set(name, (total.get(name) ?? 0n) + amount);
}

function raise(total: Amounts, floor: Amounts): void {
  for (const [name, amount] of floor) total.set(name, larger(total.get(name) ?? 0n, amount));
}

function isPodLevel(name: string): boolean {
  return name === 'cpu' || name === 'memory' || name.startsWith('hugepages-');
}

/** Extended resources only: their names have a domain and their amounts are integers. */
function extendedOf(total: Amounts): [string, number][] {
  return [...total]
    .filter(([name, amount]) => name.includes('/') && amount > 0n)
    .map(([name, amount]) => [name, Number(amount / NANOS_PER_UNIT)]);
}
