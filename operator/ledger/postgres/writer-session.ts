import type { LedgerDatabase } from '../../config/settings.ts';
import type { LedgerFailure } from '../ledger.ts';
import { toLedgerFailure } from './failures.ts';
import type { KnownStream } from './known-stream.ts';
import { openSession, type Session } from './session.ts';

export interface WriterSessionOptions {
  readonly database: LedgerDatabase;
  /** How long the server may take to answer, a commit's wait for the standby included; milliseconds. */
  readonly answerMs: number;
  readonly known: KnownStream;
}

/** The one connection that a process writes a stream by, and what became of the last commit that was sent over it. */
export class WriterSession {
  readonly #options: WriterSessionOptions;
  #session: Session | undefined;

  constructor(options: WriterSessionOptions) {
    this.#options = options;
  }

  /** Opens another one where the last is of no use any more; rejects when it cannot. */
  async connected(): Promise<Session> {
    const { database, answerMs } = this.#options;
    if (this.#session?.usable() !== true) this.#session = await openSession(database, answerMs);
    return this.#session;
  }

  /** Why nothing may be done here now: this process has stopped, or it is not known what became of its last batch. */
  async unresolved(): Promise<LedgerFailure | undefined> {
    const { known } = this.#options;
    const stopped = known.stopped();
    if (stopped !== undefined || known.isResolved()) return stopped;
    const outcome = await this.resolve();
    return typeof outcome === 'object' ? outcome : undefined;
  }

  /** Finds out what became of a commit that was not confirmed. Gives why it is not known. */
  async resolve(): Promise<'stored' | 'not stored' | LedgerFailure> {
    const { known } = this.#options;
    let session: Session | undefined;
    try {
      session = await this.connected();
      return await known.findOut(session);
    } catch (error) {
      session?.destroy();
      return known.told(toLedgerFailure('finding out what was stored', error));
    }
  }

  /** Ends it, after a farewell where it is known what became of the last commit. */
  async end(farewell: (session: Session) => Promise<unknown>): Promise<void> {
    const ending = this.#options.known.isResolved() ? this.#session : undefined;
    // What stays of a process that cannot say farewell is forgotten in time.
    if (ending !== undefined) await farewell(ending).catch(() => undefined);
    await this.#session?.end();
  }
}
