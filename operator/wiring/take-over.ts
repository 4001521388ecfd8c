import type { Replica, WriteOutcome } from '../ledger/ledger.ts';
import type { OperatorOptions } from './build-context.ts';

/** What a replica does when it has been elected, before anything of the meter's begins: a name for the log, and the work. */
export type TakeOverStep = readonly [name: string, work: (signal: AbortSignal) => Promise<unknown>];

/**
 * Makes this process the meter of a stream and takes the steps in their order. Says in the log how long each took: what the next
 * window is late after a loss of the meter is that, and the wait for its lease.
 */
export async function takeOver(
  options: Pick<OperatorOptions, 'clock' | 'logger' | 'spool'> & { readonly replica: Replica },
  steps: readonly TakeOverStep[],
  signal: AbortSignal,
): Promise<void> {
  const { clock, logger, replica, spool } = options;
  const all: readonly TakeOverStep[] = [
    ['epoch', () => untilWritten('taken over', () => replica.lead(), options, signal)],
    // What this pod spooled before it was started again.
    ...(spool === undefined
      ? []
      : [
          [
            'spool',
            () => untilWritten('read on', () => spool.begin(), options, signal),
          ] satisfies TakeOverStep,
        ]),
    ...steps,
  ];
  const milliseconds: Record<string, number> = {};
  for (const [name, work] of all) {
    const begun = clock.monotonic();
    await work(signal);
    if (signal.aborted) return;
    milliseconds[name] = Math.round(clock.monotonic() - begun);
  }
  logger.info('[controller] this process is the meter', { milliseconds });
}

const TAKE_RETRY_MS = 250;

/** Asks until the database has done what makes this process the meter. */
async function untilWritten(
  what: string,
  ask: () => Promise<WriteOutcome>,
  { clock, logger }: Pick<OperatorOptions, 'clock' | 'logger'>,
  signal: AbortSignal,
): Promise<void> {
  let said = '';
  while (!signal.aborted) {
    const outcome = await ask();
    if (outcome.kind === 'written') return;
    if (outcome.cause !== 'retryable' && outcome.cause !== 'full') throw new Error(outcome.message);
    if (outcome.message !== said) logger.warn(`[ledger] cannot be ${what}: ${outcome.message}`);
    said = outcome.message;
    await clock.sleep(TAKE_RETRY_MS, signal).catch(() => undefined);
  }
}
