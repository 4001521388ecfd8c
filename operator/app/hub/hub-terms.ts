import { randomUUID } from 'node:crypto';
import type { LedgerDatabase } from '../../settings/settings.ts';
import type { ReadinessCheck } from '../../http/views.ts';
import type { LeaderLabel } from '../../kubernetes/leader-label.ts';
import { createFleetDatabase } from '../../ledger/postgres/fleet-database.ts';
import { HubLease } from '../../ledger/postgres/hub-lease.ts';
import { errorText } from '../../model/error-text.ts';
import { inTime } from '../components.ts';
import type { LeadersWork, StandbyContext, TermEnd, Terms } from '../terms.ts';
import type { HubDatabase, HubDatabases } from './hub-streams.ts';

/** A database that has answered within this time is reached. */
const REACHED_MS = 60_000;
/** Longest wait for the API server before the process stands by. */
const LABEL_MS = 3_000;

/**
 * Terms of a hub. The process with the lease row of the first database works; others stand by
 * (docs/how-to/fleet.md#one-process-leads).
 */
export class HubTerms implements Terms {
  readonly #context: StandbyContext;
  readonly #databases: HubDatabases;
  readonly #label: LeaderLabel | undefined;

  constructor(
    context: StandbyContext,
    [first, ...further]: readonly [LedgerDatabase, ...LedgerDatabase[]],
    label: LeaderLabel | undefined,
  ) {
    this.#context = context;
    this.#databases = [
      hubDatabase(context, first),
      ...further.map((one) => hubDatabase(context, one)),
    ];
    this.#label = label;
  }

  readiness(): readonly ReadinessCheck[] {
    const { at, problem } = this.#databases[0].lease.seen;
    const ok = this.#context.clock.monotonic() - at < REACHED_MS;
    return [{ name: 'database', ok, detail: ok ? 'reached' : problem || 'it is being read' }];
  }

  mayAct(): boolean {
    return this.#databases[0].lease.isTrusted();
  }

  async run(work: LeadersWork, signal: AbortSignal): Promise<TermEnd> {
    const { clock, logger } = this.#context;
    const databases = this.#databases;
    const mayAct = () => this.mayAct();
    // An earlier process may have left the label on the pod.
    await this.#label?.remove(AbortSignal.timeout(LABEL_MS));
    try {
      await databases[0].lease.run(signal, async (epoch, leading) => {
        const lead = (leads: AbortSignal) => work({ kind: 'hub', databases, epoch, mayAct }, leads);
        const end = await inTime(lead, leading, { signal, clock });
        if (end.kind === 'failed') throw new Error(end.reason);
        if (!signal.aborted) logger.warn('[hub] another process leads: this one stands by');
      });
      return { kind: 'stopped' };
    } catch (error) {
      return { kind: 'failed', reason: errorText(error) };
    }
  }
}

function hubDatabase(
  { environment, instance, clock, logger }: StandbyContext,
  database: LedgerDatabase,
): HubDatabase {
  const { retentionMs, durability } = environment.ledger;
  return {
    database: createFleetDatabase({ database, durability, retentionMs, clock, logger }),
    lease: new HubLease({ database, owner: `${instance} ${randomUUID()}`, clock, logger }),
  };
}
