import type { OpenUsage } from '../../destinations/invoices.ts';
import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import { isRecord } from '../../model/is-record.ts';
import { renamedKeys } from '../../model/renamed-keys.ts';
import type { Balance, CountedLines, TenantBalances } from './invoice-balance.ts';

/** The position up to which the ledger is added up. */
export interface TallyState {
  readonly type: string;
  readonly position: number;
  /** The head when it began, and whether all events up to there were stored and sent. */
  readonly begunAt: number;
  readonly begunComplete: boolean;
}

/** An event that the cursor has passed and may still be sent: a dead letter, or parked. */
export interface WaitingEvent {
  readonly sequence: number;
  readonly tenant: string;
  readonly metric: string;
  /** The beginning of its window, milliseconds since the epoch. */
  readonly at: number;
  readonly nanos: bigint;
}

type StoredBalance = Omit<Balance, 'open' | 'marks' | 'missing' | 'late' | 'invoiced'> & {
  readonly sums: readonly [open: string, missing: string, late: string, invoiced: string];
  /** Absent in records of earlier releases. */
  readonly marks?: readonly (readonly [at: number, before: string])[];
};

interface StoredTenant {
  readonly isComplete: boolean;
  readonly firstAt?: number;
  readonly until?: number;
  readonly payer?: string;
  readonly open: readonly OpenUsage[];
  readonly metrics: readonly (readonly [string, StoredBalance])[];
  readonly counted: readonly (readonly [
    id: string,
    at: number,
    sums: readonly (readonly [metric: string, nanos: string, to?: number])[],
  ])[];
}

/** Names of fields in records of earlier versions, each with the present name. */
const EARLIER_NAMES = new Map([['begunWhole', 'begunComplete']]);

/**
 * Reads and builds the records of a destination's invoices, below `delivery/<name>/invoices/`:
 * `state`, `waiting`, and `tenant/<tenant>`.
 */
export function createInvoiceRecords(ledger: Ledger, name: string) {
  const destination = `delivery/${encodeURIComponent(name)}`;
  const served = `${destination}/tenant/`;
  const root = `${destination}/invoices`;
  const tenants = `${root}/tenant/`;
  const put = (key: string, value: unknown): RecordChange => ({
    key,
    value: JSON.stringify(value),
  });
  const read = async (key: string): Promise<unknown> => {
    const value = await ledger.record(key);
    return value === undefined ? undefined : JSON.parse(value);
  };
  return {
    state: async (): Promise<TallyState | undefined> => {
      const state = await read(`${root}/state`);
      return isRecord(state) ? (renamedKeys(state, EARLIER_NAMES) as TallyState) : undefined;
    },
    putState: (state: TallyState): RecordChange => put(`${root}/state`, state),

    waiting: async (): Promise<readonly WaitingEvent[]> => {
      const stored = (await read(`${root}/waiting`)) as readonly (Omit<WaitingEvent, 'nanos'> & {
        nanos: string;
      })[];
      return (stored ?? []).map((event) => ({ ...event, nanos: BigInt(event.nanos) }));
    },
    putWaiting: (events: Iterable<WaitingEvent>): RecordChange =>
      put(
        `${root}/waiting`,
        [...events].map((event) => ({ ...event, nanos: String(event.nanos) })),
      ),

    /** Yields the tenants that were ever provisioned at the destination. */
    served: async function* (): AsyncGenerator<string> {
      for await (const [key] of ledger.records(served)) {
        yield decodeURIComponent(key.slice(served.length));
      }
    },

    tenants: async function* (): AsyncGenerator<readonly [string, TenantBalances]> {
      for await (const [key, value] of ledger.records(tenants)) {
        const id = decodeURIComponent(key.slice(tenants.length));
        yield [id, decodeTenant(JSON.parse(value) as StoredTenant)];
      }
    },
    putTenant: (id: string, tenant: TenantBalances): RecordChange =>
      put(`${tenants}${encodeURIComponent(id)}`, encodeTenant(tenant)),
  };
}

export type InvoiceRecords = ReturnType<typeof createInvoiceRecords>;

function encodeTenant(tenant: TenantBalances): StoredTenant {
  const { isComplete, firstAt, until, payer, open, metrics, counted } = tenant;
  return {
    isComplete,
    firstAt,
    until,
    payer,
    open,
    metrics: [...metrics].map(([metric, balance]) => {
      const { open: usage, marks: ages, missing, late, invoiced, ...fields } = balance;
      const [a, b, c, d] = [usage, missing, late, invoiced].map(String) as [
        string,
        string,
        string,
        string,
      ];
      const marks = ages.map(({ at, before }) => [at, String(before)] as const);
      return [metric, { ...fields, sums: [a, b, c, d], marks }] as const;
    }),
    counted: [...counted].map(
      ([id, { at, sums }]) =>
        [id, at, [...sums].map(([metric, lines]) => storedLines(metric, lines))] as const,
    ),
  };
}

function decodeTenant(stored: StoredTenant): TenantBalances {
  return {
    isComplete: stored.isComplete,
    firstAt: stored.firstAt,
    until: stored.until,
    payer: stored.payer,
    open: stored.open,
    metrics: new Map(
      stored.metrics.map(([metric, { sums, marks = [], ...fields }]) => {
        const [open, missing, late, invoiced] = sums;
        const balance: Balance = {
          ...fields,
          open: BigInt(open),
          marks: marks.map(([at, before]) => ({ at, before: BigInt(before) })),
          missing: BigInt(missing),
          late: BigInt(late),
          invoiced: BigInt(invoiced),
        };
        return [metric, balance];
      }),
    ),
    counted: new Map(
      stored.counted.map(([id, at, sums]) => [
        id,
        {
          at,
          sums: new Map(
            sums.map(([metric, nanos, to = Infinity]) => [metric, { nanos: BigInt(nanos), to }]),
          ),
        },
      ]),
    ),
  };
}

/** Leaves out an infinite end, because JSON has none. Without an end, all lines are counted. */
function storedLines(
  metric: string,
  { nanos, to }: CountedLines,
): readonly [metric: string, nanos: string, to?: number] {
  return Number.isFinite(to) ? [metric, String(nanos), to] : [metric, String(nanos)];
}
