import type { Connection } from '../kubernetes/connection.ts';
import { describeFailure } from '../kubernetes/outcome.ts';
import type { Ledger, LedgerAnchor } from '../ledger/ledger.ts';
import { isRecord } from '../model/is-record.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { readStoredPolicy } from './stored-policy.ts';

const RETRY_MS = 2_000;

/** Dependencies of the comparison. */
export interface Comparing {
  readonly connection: Pick<Connection, 'request'>;
  readonly ledger: Pick<Ledger, 'compareWith'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Compares the ledger with its record in the status of the MeteringPolicy, before this process
 * writes anything as the leader (docs/reference/ledger-format.md#a-head-that-went-back). Retries
 * until the API server answers and the ledger has compared. Rejects if another process has the
 * ledger.
 */
export async function compareWithStatus(
  { connection, ledger, clock, logger }: Comparing,
  signal: AbortSignal,
): Promise<void> {
  let stated = '';
  while (!signal.aborted) {
    const waitsFor = await compareOnce({ connection, ledger }, signal);
    if (waitsFor === undefined) return;
    if (waitsFor !== stated && !signal.aborted) {
      logger.warn(`[ledger] cannot be compared with the MeteringPolicy's status yet: ${waitsFor}`);
    }
    stated = waitsFor;
    await clock.sleep(RETRY_MS, signal).catch(() => undefined);
  }
}

/** Compares once. Returns why a retry is needed, or undefined. */
async function compareOnce(
  { connection, ledger }: Pick<Comparing, 'connection' | 'ledger'>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const stored = await readStoredPolicy(connection, signal);
  // Without the custom resource, or the right to read it, there is nothing to compare with.
  if (stored.kind === 'status' && [403, 404].includes(stored.code)) return undefined;
  if (stored.kind !== 'ok') return describeFailure(stored);
  const anchor = anchorOf(stored.policy?.['status']);
  if (anchor === undefined) return undefined;
  const outcome = await ledger.compareWith(anchor);
  if (outcome.kind === 'written') return undefined;
  if (outcome.cause === 'retryable' || outcome.cause === 'full') return outcome.message;
  throw new Error(outcome.message);
}

/** The ledger's record in a status; undefined if no release, or an older one, wrote it. */
function anchorOf(status: unknown): LedgerAnchor | undefined {
  const noted = isRecord(status) ? status['ledger'] : undefined;
  if (!isRecord(noted)) return undefined;
  const { id: ledgerId, sequence, chain } = noted;
  if (typeof ledgerId !== 'string' || typeof sequence !== 'number' || typeof chain !== 'string') {
    return undefined;
  }
  return { ledgerId, sequence, chain };
}
