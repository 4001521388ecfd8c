import { nanosFromDecimal } from '../../operator/model/decimal.ts';
import { nanosOf } from '../accuracy/figures.ts';
import type { ReceivedEvent } from '../long/received.ts';
import type { Due, Truth } from './truth.ts';

/** How far apart two clients of a busy API server are told of one change. */
const ARRIVAL_MS = 100;

/** Bills of one tenant for one metric, in the metric's unit. */
export interface Figure {
  readonly tenant: string;
  readonly metric: string;
  readonly truth: number;
  readonly billed: number;
  readonly relative_error: number;
  /** Of what is left when each end without a time in the API may have arrived {@link ARRIVAL_MS} apart. */
  readonly beyond_arrival: number;
  /** The object that is furthest from its truth, and by how much; undefined where none is. */
  readonly worst?: string;
}

export interface Comparison {
  readonly figures: readonly Figure[];
  /** Pods that ran, and that stand behind no event. */
  readonly unlisted: readonly string[];
}

/** What stands behind an event. */
export interface Explained {
  readonly event: ReceivedEvent;
  readonly objects: readonly { readonly uid?: string; readonly quantity: number }[];
}

/** Between two moments; all events lie within. */
export interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** What the operator has to say of a stretch of whole windows. */
export interface Stated {
  readonly stretch: Stretch;
  readonly explained: readonly Explained[];
  /** Objects of which it could not tell whose they are: `namespace/name`. */
  readonly unattributed: readonly string[];
}

/** Holds the bills of a stretch against the truth, tenant by tenant and metric by metric. */
export function compare(truth: Truth, { explained, unattributed, stretch }: Stated): Comparison {
  const unknown = truth.unknown.filter((pod) => !unattributed.includes(pod));
  const dues = truth.dues.filter((due) => !isLeftover(due, truth.dues, unattributed));
  const keys = new Set<string>();
  const due = new Map<string, bigint>();
  const paid = new Map<string, bigint>();
  const vague = new Map<string, bigint>();
  const balance = new Map<string, Map<string, number>>();
  const listed = new Set<string>();
  const owe = (key: string, uid: string, amount: number): void => {
    const objects = balance.get(key) ?? new Map<string, number>();
    balance.set(key, objects.set(uid, (objects.get(uid) ?? 0) + amount));
  };
  for (const each of dues) {
    const nanos = dueIn(each, stretch);
    if (nanos === 0n) continue;
    const key = `${each.namespace} ${each.metric}`;
    keys.add(key);
    due.set(key, (due.get(key) ?? 0n) + nanos);
    const arrival = nanosOf(each.rate, each.undated * ARRIVAL_MS);
    vague.set(key, (vague.get(key) ?? 0n) + arrival);
    owe(key, each.uid, -Number(nanos) / 1e9);
  }
  for (const { event, objects } of explained) {
    const key = `${namespaceOf(event)} ${event.metric}`;
    keys.add(key);
    paid.set(key, (paid.get(key) ?? 0n) + nanosFromDecimal(event.quantity));
    for (const { uid = '?', quantity } of objects) {
      listed.add(uid);
      owe(key, uid, quantity);
    }
  }
  const names = new Map(dues.map(({ uid, name }) => [uid, name]));
  const unlisted = new Set(unknown);
  for (const each of dues) {
    if (each.metric !== 'tenant_cpu_core_hours' || listed.has(each.uid)) continue;
    if (dueIn(each, stretch) > 0n) unlisted.add(`${each.namespace}/${each.name}`);
  }
  const figures = [...keys].toSorted().map((key) => {
    const [tenant = '', metric = ''] = key.split(' ');
    const of = (sums: ReadonlyMap<string, bigint>): bigint => sums.get(key) ?? 0n;
    const sums = { due: of(due), paid: of(paid), vague: of(vague) };
    return { tenant, metric, ...figureOf(sums), ...worstOf(balance.get(key), names) };
  });
  return { figures, unlisted: [...unlisted] };
}

/**
 * What a syncer made in its last moments, when its tenant cluster was uninstalled already, is nobody's and has to be listed
 * (docs/explanation/discovery.md#uninstalling).
 */
function isLeftover(due: Due, dues: readonly Due[], unattributed: readonly string[]): boolean {
  if (!unattributed.includes(`${due.namespace}/${due.name}`)) return false;
  const lived = dues.filter(
    ({ metric, namespace }) => metric === 'tenant_instance_hours' && namespace === due.namespace,
  );
  return lived.length > 0 && lived.every(({ to = Infinity }) => to <= due.from);
}

function dueIn({ from, to = Infinity, rate }: Due, stretch: Stretch): bigint {
  const ms = Math.min(to, stretch.to) - Math.max(from, stretch.from);
  return ms > 0 ? nanosOf(rate, ms) : 0n;
}

function figureOf(sums: {
  readonly due: bigint;
  readonly paid: bigint;
  readonly vague: bigint;
}): Omit<Figure, 'tenant' | 'metric' | 'worst'> {
  const { due, paid, vague } = sums;
  const difference = paid > due ? paid - due : due - paid;
  const beyond = difference > vague ? difference - vague : 0n;
  const share = (part: bigint): number => (part === 0n ? 0 : Number(part) / Number(due));
  return {
    truth: Number(due) / 1e9,
    billed: Number(paid) / 1e9,
    relative_error: share(difference),
    beyond_arrival: share(beyond),
  };
}

/** A billionth for each event is rounding. */
const NEGLIGIBLE = 1e-6;

function worstOf(
  objects: ReadonlyMap<string, number> = new Map(),
  names: ReadonlyMap<string, string>,
): Pick<Figure, 'worst'> {
  const [worst] = [...objects].toSorted(([, a], [, b]) => Math.abs(b) - Math.abs(a));
  if (worst === undefined || Math.abs(worst[1]) < NEGLIGIBLE) return {};
  const [uid, amount] = worst;
  return { worst: `${names.get(uid) ?? uid}: ${amount > 0 ? '+' : ''}${amount.toFixed(9)}` };
}

/** A tenant cluster's id is `tenant-<namespace>-<name>`, and here a namespace is `team-<name>`. */
function namespaceOf({ dimensions }: ReceivedEvent): string {
  const id = dimensions?.['tenant_cluster'] ?? '';
  return /^tenant-(team-(.+))-\2$/.exec(id)?.[1] ?? id;
}
