import type { DestinationSettings } from '../../settings/settings.ts';
import type {
  Cursor,
  Ledger,
  LedgerFailure,
  RecordChange,
  WriteOutcome,
} from '../../ledger/ledger.ts';
import {
  createDeliveryRecords,
  type DeliveryRecords,
  type FeederState,
} from '../records/delivery-records.ts';
import { addUnsent } from '../records/sequence-sets.ts';

export type StartPosition =
  | {
      readonly kind: 'position';
      readonly sequence: number;
      readonly state: FeederState;
      /** When the resumed cursor was retired, milliseconds since the epoch. */
      readonly retiredAt?: number;
    }
  /** An operator must act first. */
  | { readonly kind: 'blocked'; readonly reason: string }
  | LedgerFailure;

/**
 * Finds the position at which a destination begins to read, and commits its cursor
 * (docs/explanation/delivery.md#cursors):
 *
 * 1. A cursor of the same type exists, retired or not: delivery resumes there.
 * 2. A cursor of another type exists under this name: it is dropped. Events that were set aside for
 *    it become dead letters, so that they stay visible. Then as in 3.
 * 3. No cursor exists: `startFrom` decides.
 */
export async function findStartPosition(
  ledger: Ledger,
  records: DeliveryRecords,
  settings: Pick<DestinationSettings, 'name' | 'type' | 'startFrom'>,
  now: number,
): Promise<StartPosition> {
  const { name, type } = settings;
  const state = await records.state();
  const cursor = ledger.cursors().find(({ destination }) => destination === name);
  const sameType = state === undefined || state.type === type;
  if (cursor !== undefined && sameType) {
    const resumed = await resume(ledger, records, cursor, state ?? { type });
    const reason = halfSent(cursor, ledger.lowWater(), await records.sumsUntil());
    return reason === undefined ? resumed : { kind: 'blocked', reason };
  }

  if (!sameType) {
    const reason = `was waiting for the ${state.type} destination of this name`;
    const cleared = await ledger.writeRecords(await deadLettersOfFormerType(records, reason, now));
    if (cleared.kind === 'failed') return cleared;
    const dropped = await ledger.dropCursor(name);
    if (dropped.kind === 'failed') return dropped;
  }
  const sequence = settings.startFrom === 'now' ? ledger.head() : ledger.lowWater();
  const fresh: FeederState = { type };
  const before = addUnsent([], ledger.lowWater() + 1, sequence);
  const outcome = await ledger.commitCursor(name, sequence, {
    from: 'none',
    records: [records.putState(fresh), records.putUnsent(before)],
  });
  return outcome.kind === 'failed' ? outcome : { kind: 'position', sequence, state: fresh };
}

/**
 * Commits the cursor of a destination without a feeder, so that the ledger retains its events from
 * then on (docs/explanation/delivery.md#cursors). A retired cursor of the same type is put back
 * into use. A cursor in use stays as it is.
 */
export async function reservePosition(
  ledger: Ledger,
  destination: Pick<DestinationSettings, 'name' | 'type' | 'startFrom'>,
  now: number,
): Promise<WriteOutcome> {
  const { name } = destination;
  const cursor = ledger.cursors().find((one) => one.destination === name);
  if (cursor !== undefined && cursor.retiredAt === undefined) return { kind: 'written' };
  const records = createDeliveryRecords(ledger, name);
  const start = await findStartPosition(ledger, records, destination, now);
  return start.kind === 'failed' ? start : { kind: 'written' };
}

/**
 * Returns why a cursor cannot move on inside an hour that an earlier version sends as sums;
 * undefined if it is outside of one.
 */
function halfSent({ sequence }: Cursor, lowWater: number, sumsUntil: number): string | undefined {
  if (Math.max(sequence, lowWater) >= sumsUntil) return undefined;
  const what = `an hour is half sent as sums (aggregate: 1h), which end with event ${sumsUntil}: cursor: "${sequence}"`;
  return `${what}; run the version before with aggregate: none until the cursor has passed it, or move the cursor there and enter by hand what is missing`;
}

/** Returns a text about events that the cursor has missed; undefined if it missed none. */
export function lossText(
  { sequence, retiredAt }: Extract<StartPosition, { readonly kind: 'position' }>,
  lowWater: number,
): string | undefined {
  const lost = lowWater - sequence;
  if (lost <= 0) return undefined;
  const text = `${lost} events after the cursor are no longer in the ledger`;
  const where = `cursor: "${sequence}"`;
  if (retiredAt === undefined) return `${text}: ${where}`;
  const since = `it was retired at ${new Date(retiredAt).toISOString()} and RETENTION has passed since`;
  return `${text}, because ${since}: ${where}: it goes on with event ${lowWater + 1}`;
}

async function resume(
  ledger: Ledger,
  records: DeliveryRecords,
  { destination, sequence, retiredAt }: Cursor,
  state: FeederState,
): Promise<StartPosition> {
  const commit = { from: sequence, records: [records.putState(state)] };
  const outcome = await ledger.commitCursor(destination, sequence, commit);
  if (outcome.kind === 'failed') return outcome;
  return { kind: 'position', sequence, state, retiredAt };
}

/** Builds the changes that turn everything set aside for a former destination into dead letters. */
async function deadLettersOfFormerType(
  records: DeliveryRecords,
  reason: string,
  at: number,
): Promise<RecordChange[]> {
  const changes: RecordChange[] = [records.putInFlight([])];
  for await (const stored of records.parked()) {
    const { tenant } = stored.event;
    changes.push(
      records.dropParked(tenant, stored.sequence),
      records.dropTenant(tenant),
      records.putDead({ ...stored, at, reason }),
    );
  }
  for await (const stored of records.replay()) {
    changes.push(records.dropReplay(stored.sequence), records.putDead({ ...stored, at, reason }));
  }
  for await (const [chunk] of records.acknowledged()) changes.push(records.dropAcknowledged(chunk));
  for await (const dropped of records.dropSums()) changes.push(dropped);
  for await (const { tenant } of records.changes()) changes.push(records.dropChanges(tenant));
  for await (const { tenant } of records.offboards()) changes.push(records.dropOffboard(tenant.id));
  return changes;
}
