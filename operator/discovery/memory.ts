import { isRecord } from '../model/is-record.ts';
import { parseJson } from '../model/parse-json.ts';
import { sameValue } from '../model/same-value.ts';
import { storedTenant, type Tenant } from '../model/tenant.ts';
import { quote } from '../model/quote.ts';
import type { Ledger, RecordChange, RecordStore } from '../ledger/ledger.ts';
import type { AssignedIds } from './cluster-ids.ts';
import type { KnownTenant, KnownTenants } from './offboarding.ts';

/** A tenant cluster's id, and since when the tenant cluster is gone (ms since the epoch). */
export interface RememberedId {
  readonly id: string;
  readonly goneAt?: number;
}

/** The stored state of discovery: ids by `<namespace>/<name>`, customers by id. */
export interface Memory {
  readonly ids: ReadonlyMap<string, RememberedId>;
  readonly tenants: KnownTenants;
}

const ID_PREFIX = 'discovery/cluster/';
const TENANT_PREFIX = 'discovery/tenant/';

/**
 * Retention of an id after its tenant cluster has gone, so that a new one of the same name does not
 * get its customer. Bounded, because tenant clusters may come and go often.
 */
const ID_RETENTION_MS = 400 * 86_400_000;

/** Reads the stored state. Throws when the store cannot be read. */
export async function loadMemory(store: Pick<RecordStore, 'records'>): Promise<{
  readonly memory: Memory;
  /** Damaged records, one line each. Discovery creates them again. */
  readonly problems: readonly string[];
}> {
  const problems: string[] = [];
  const ids = await readAll<RememberedId>(store, ID_PREFIX, 'id', problems);
  const tenants = await readAll<KnownTenant>(store, TENANT_PREFIX, 'tenant', problems);
  const known = [...tenants].map(
    ([id, { tenant, presence }]) => [id, { tenant: storedTenant(tenant), presence }] as const,
  );
  return { memory: { ids, tenants: new Map(known) }, problems };
}

/**
 * A customer as the discovering process stored it, which precedes its publication. Rejects when the
 * store cannot be read.
 */
export async function recordedTenant(
  store: Pick<Ledger, 'record'>,
  id: string,
): Promise<Tenant | undefined> {
  const value = parseJson((await store.record(TENANT_PREFIX + id)) ?? '');
  if (!isRecord(value) || !('tenant' in value)) return undefined;
  return storedTenant(value['tenant'] as Tenant);
}

/** The assigned ids, by place. */
export function assignedIds({ ids }: Memory): AssignedIds {
  return new Map([...ids].map(([place, { id }]) => [place, id]));
}

/** The ids after a pass that found the places in `present`; `added` are new. */
export function rememberIds(
  { ids }: Memory,
  added: AssignedIds,
  present: ReadonlySet<string>,
  now: number,
): ReadonlyMap<string, RememberedId> {
  const next = new Map<string, RememberedId>();
  for (const [place, known] of ids) {
    const { id, goneAt } = known;
    // An unchanged entry stays the same object, so that comparing the many departed ones is fast.
    if (present.has(place)) next.set(place, goneAt === undefined ? known : { id });
    else if (goneAt === undefined) next.set(place, { id, goneAt: now });
    else if (now - goneAt < ID_RETENTION_MS) next.set(place, known);
  }
  for (const [place, id] of added) next.set(place, { id });
  return next;
}

/** The record changes from one state to another. */
export function memoryChanges(from: Memory, to: Memory): readonly RecordChange[] {
  return [
    ...changesOf(ID_PREFIX, from.ids, to.ids),
    ...changesOf(TENANT_PREFIX, from.tenants, to.tenants),
  ];
}

function changesOf<T>(
  prefix: string,
  from: ReadonlyMap<string, T>,
  to: ReadonlyMap<string, T>,
): RecordChange[] {
  const changes: RecordChange[] = [];
  for (const [key, value] of to) {
    if (sameValue(value, from.get(key))) continue;
    changes.push({ key: prefix + key, value: JSON.stringify(value) });
  }
  for (const key of from.keys()) {
    if (!to.has(key)) changes.push({ key: prefix + key, value: undefined });
  }
  return changes;
}

async function readAll<T extends object>(
  store: Pick<RecordStore, 'records'>,
  prefix: string,
  field: keyof T & string,
  problems: string[],
): Promise<ReadonlyMap<string, T>> {
  const values = new Map<string, T>();
  for await (const [key, text] of store.records(prefix)) {
    const value = parseJson(text);
    // Only this module writes under the prefix, so the field shows whether a record is intact.
    if (isRecord(value) && field in value) values.set(key.slice(prefix.length), value as T);
    else problems.push(`damaged record, ignored: ${key}: ${quote(text)}`);
  }
  return values;
}
