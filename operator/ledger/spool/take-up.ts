import { errorText } from '../../model/error-text.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { ledgerFailure } from '../failures.ts';
import { type LedgerFailure, LedgerReadError } from '../ledger.ts';
import type { MeterLedger } from '../meter-ledger.ts';
import type { Spool } from './spool.ts';
import type { SpoolDirectory } from './spool-directory.ts';
import { stateOf, streamState } from './stream-position.ts';

/** What a meter begins with. */
export interface TakenUp {
  readonly kind: 'taken up';
  /** Where the database is: see {@link streamState}. */
  readonly state: string;
  /** What an earlier process has left for it. */
  readonly spool: Spool | undefined;
}

export interface TakeUpOptions {
  /** The database's, by the right of the meter. */
  readonly ledger: MeterLedger;
  readonly directory: SpoolDirectory;
  readonly logger: Logger;
}

/**
 * Looks at what an earlier process has left. A spool that the database does not continue is put aside: another meter
 * has measured the same windows since, or the database went back. `invalid`: it is that of another ledger. `corrupt`: it
 * cannot be read.
 */
export async function takeUp(options: TakeUpOptions): Promise<TakenUp | LedgerFailure> {
  try {
    const state = await streamState(options.ledger);
    return { kind: 'taken up', state, spool: await leftBehind(options, state) };
  } catch (error) {
    if (error instanceof LedgerReadError) return error.failure;
    const what = `${options.directory.path}: ${errorText(error)}`;
    return ledgerFailure('retryable', `ledger: the spool: ${what}`);
  }
}

async function leftBehind(
  { ledger, directory, logger }: TakeUpOptions,
  state: string,
): Promise<Spool | undefined> {
  if (!(await directory.isThere())) return undefined;
  const opened = await directory.open();
  if (opened.kind === 'failed') throw new LedgerReadError(opened);
  const { spool } = opened;
  try {
    const base = spool.base();
    if (base === undefined || spool.size() === 0) {
      await spool.close();
      await directory.remove();
      return undefined;
    }
    if (base.ledgerId !== ledger.stats().ledgerId) throw ofAnother(directory.path, base.ledgerId);
    if (await continues(spool, base.state, state)) {
      logger.info(`[ledger] ${spool.size()} batches wait in the spool for the database`);
      return spool;
    }
  } catch (error) {
    await spool.close();
    throw error;
  }
  await spool.close();
  const aside = await directory.putAside();
  const why = 'another meter has written since, or the database went back';
  logger.error(`[ledger] a spool is put aside, the database is not as it left it: ${why}`, {
    aside,
    batches: spool.size(),
  });
  return undefined;
}

/** Whether the database is as it was before the oldest batch, or has that one already: its answer may not have come. */
async function continues(spool: Spool, before: string, state: string): Promise<boolean> {
  if (state === before) return true;
  const oldest = await spool.oldest();
  if (oldest === undefined) return false;
  if ('kind' in oldest) throw new LedgerReadError(oldest);
  return stateOf(oldest.records) === state;
}

function ofAnother(path: string, ledgerId: string): LedgerReadError {
  const text = `the spool is that of another ledger: ${path}: "${ledgerId}"`;
  const mend = 'name its database in LEDGER_URL, or move the directory away';
  return new LedgerReadError(ledgerFailure('invalid', `ledger: ${text}; ${mend}`));
}
