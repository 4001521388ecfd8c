import type { Logger } from '../../telemetry/logger.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { LedgerReadError } from '../ledger.ts';
import { toLedgerFailure } from '../leveldb/failures.ts';
import { openLevelComponents } from '../leveldb/open-level-ledger.ts';
import { segmentName } from '../leveldb/segment-names.ts';
import type { SealedSegment } from '../leveldb/state.ts';
import type { Store } from '../leveldb/store.ts';
import { verifySegment } from '../leveldb/verify.ts';

/** A segment that an operator has given up. */
export interface GivenUp {
  readonly segment: string;
  readonly firstSequence: number;
  readonly lastSequence: number;
  readonly damage: string;
  /** Pushed events of windows that ended at or before this time are refused from now on. */
  readonly horizon: string;
  /** Destinations that will not receive some of these events, with their cursors. */
  readonly undelivered: Readonly<Record<string, number>>;
}

const SILENT: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/**
 * Gives up a damaged sealed segment of a stopped operator's ledger: readers skip it, ids are not
 * searched in it, and it stops being a problem. RETENTION deletes its directory later. Throws if
 * there is no such segment or it is not damaged.
 */
export async function acceptDamage(directory: string, name: string): Promise<GivenUp> {
  const components = await openLevelComponents({
    directory,
    retentionMs: Number.MAX_SAFE_INTEGER,
    clock: systemClock,
    logger: SILENT,
  });
  try {
    return await giveUp(components.store, name);
  } finally {
    components.metrics.close();
    await components.store.close();
  }
}

async function giveUp(store: Store, name: string): Promise<GivenUp> {
  const { sealed } = store.contents();
  const segment = sealed.find(({ firstSequence }) => segmentName(firstSequence) === name);
  if (segment === undefined) throw new Error(`not a sealed segment: "${name}"`);
  if (segment.givenUp === true) throw new Error(`given up already: "${name}"`);
  const damage = segment.damage ?? (await damageOf(store, segment));
  const [outcome] = await store.write([{ kind: 'give-up', segment }]);
  if (outcome?.kind !== 'appended') throw new Error(outcome?.message ?? 'not written');
  const { state, cursors } = store.contents();
  const { firstSequence, lastSequence } = segment;
  const behind = [...cursors.values()].filter(({ sequence }) => sequence < lastSequence);
  return {
    segment: name,
    firstSequence,
    lastSequence,
    damage,
    horizon: new Date(state.horizon).toISOString(),
    undelivered: Object.fromEntries(
      behind.map(({ destination, sequence }) => [destination, sequence]),
    ),
  };
}

async function damageOf(store: Store, segment: SealedSegment): Promise<string> {
  const { pool, link } = store.view();
  try {
    await pool.use(segment, (database, where) =>
      verifySegment(database, where, { segment, link }, { ids: true }),
    );
  } catch (error) {
    const failure = toLedgerFailure('reading it', error);
    if (failure.cause === 'corrupt') return failure.message;
    throw new LedgerReadError(failure);
  }
  throw new Error(`not damaged: "${segmentName(segment.firstSequence)}"`);
}
