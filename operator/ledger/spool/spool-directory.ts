import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { errorText } from '../../model/error-text.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { ledgerFailure } from '../failures.ts';
import { type LedgerFailure, LedgerReadError } from '../ledger.ts';
import { renameDurably, syncDirectory } from '../leveldb/files.ts';
import { openLevelLedger } from '../leveldb/open-level-ledger.ts';
import { readSpool, type Spool } from './spool.ts';

const NAME = 'spool';
const DRAINED = 'spool-drained';
const ASIDE = 'spool-aside-';

/** Nothing in a spool is older than the outage, and it goes as a whole. */
const RETENTION_MS = Number.MAX_SAFE_INTEGER;

export type OpenSpoolOutcome = { readonly kind: 'opened'; readonly spool: Spool } | LedgerFailure;

/** Where a spool is, and those that were put aside (docs/ledger-format.md#the-spool). */
export interface SpoolDirectory {
  readonly path: string;
  /** Whether an earlier process has left a spool. Finishes what it began to delete. */
  isThere(): Promise<boolean>;
  /** Opens the spool, or makes one. */
  open(): Promise<OpenSpoolOutcome>;
  /** Deletes the spool, which is closed: all of it at one moment. */
  remove(): Promise<void>;
  /** Puts the spool, which is closed, out of the way for somebody to look at; gives where it is then. */
  putAside(): Promise<string>;
  /** How many are put aside. */
  aside(): Promise<number>;
}

export interface SpoolDirectoryOptions {
  /** DATA_DIR. */
  readonly parent: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

export function createSpoolDirectory(options: SpoolDirectoryOptions): SpoolDirectory {
  const { parent, clock, logger } = options;
  const path = join(parent, NAME);
  const drained = join(parent, DRAINED);
  const names = async (): Promise<readonly string[]> => readdir(parent).catch(() => []);
  return {
    path,
    async isThere() {
      await rm(drained, { recursive: true, force: true });
      return (await names()).includes(NAME);
    },
    async open() {
      const opened = await openLevelLedger({
        directory: path,
        retentionMs: RETENTION_MS,
        clock,
        logger,
      });
      if (opened.kind === 'failed') return opened;
      const { problems } = opened.ledger.stats();
      try {
        if (problems.length > 0) throw damaged(path, problems);
        // Its name must stay as surely as what is in it.
        await syncDirectory(parent);
        return { kind: 'opened', spool: await readSpool(opened.ledger) };
      } catch (error) {
        await opened.ledger.close();
        if (error instanceof LedgerReadError) return error.failure;
        return ledgerFailure('retryable', `${path}: ${errorText(error)}`);
      }
    },
    async remove() {
      await rm(drained, { recursive: true, force: true });
      await renameDurably(path, drained);
      await rm(drained, { recursive: true, force: true });
    },
    async putAside() {
      const at = new Date(clock.now()).toISOString().replaceAll(/[:.]/g, '-');
      const aside = join(parent, ASIDE + at);
      await renameDurably(path, aside);
      return aside;
    },
    aside: async () => (await names()).filter((name) => name.startsWith(ASIDE)).length,
  };
}

function damaged(path: string, problems: readonly string[]): LedgerReadError {
  return new LedgerReadError(ledgerFailure('corrupt', `${path}: ${problems.join('; ')}`));
}
