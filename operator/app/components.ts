import { untilAborted } from '../kubernetes/abort.ts';
import { errorText } from '../model/error-text.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';

/** Something that works until it is told to stop. */
export interface Component {
  readonly name: string;
  /** Ends soon after the signal is aborted, with its work in order. Ending or rejecting before that stops everything. */
  run(signal: AbortSignal): Promise<void>;
}

/** Why {@link runParts} has ended: asked to, or because a part could not go on. */
export type PartsEnd =
  | { readonly kind: 'stopped' }
  | { readonly kind: 'failed'; readonly reason: string };

/** Longest wait for all parts to end; below the 60 s that Kubernetes grants the pod. */
export const STOP_DEADLINE_MS = 40_000;

/** A leader that another process has followed must have ended its work after this time, or the process ends. */
const STEP_DOWN_MS = 10_000;

/**
 * Runs all parts until the signal is aborted or one of them ends, then stops them one after the
 * other, the last one first, so that nothing loses what it still needs.
 */
export async function runParts(
  parts: readonly Component[],
  signal: AbortSignal,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
): Promise<PartsEnd> {
  const running = parts.map((part) => {
    const stop = new AbortController();
    return { part, stop, ended: outcomeOf(part, stop.signal) };
  });
  const first = await Promise.race([
    aborted(signal),
    ...running.map(async ({ part, ended }) => `${part.name}: ${await ended}`),
  ]);
  const deadline = new AbortController();
  const late = clock
    .sleep(STOP_DEADLINE_MS, deadline.signal)
    .then(() => 'late' as const)
    .catch(() => 'in time' as const);
  for (const { part, stop, ended } of running.toReversed()) {
    stop.abort();
    const outcome = await Promise.race([ended, late]);
    if (outcome === 'late') logger.error(`[controller] ${part.name} does not stop`);
    logger.debug(`[controller] stopped ${part.name}`);
  }
  deadline.abort();
  return first === undefined ? { kind: 'stopped' } : { kind: 'failed', reason: first };
}

async function outcomeOf(part: Component, signal: AbortSignal): Promise<string> {
  try {
    await part.run(signal);
    return 'ended unasked';
  } catch (error) {
    return errorText(error);
  }
}

/** The end of a leader's work; a failure where it throws, and where a leader that leads no more, and is not to stop, does not end in time. */
export async function inTime(
  work: (leading: AbortSignal) => Promise<PartsEnd>,
  leading: AbortSignal,
  { signal: stopping, clock }: { readonly signal: AbortSignal; readonly clock: Clock },
): Promise<PartsEnd> {
  const ended = new AbortController();
  const late = async (): Promise<PartsEnd> => {
    await untilAborted(leading, ended.signal);
    if (stopping.aborted) await untilAborted(ended.signal);
    await clock.sleep(STEP_DOWN_MS, ended.signal);
    return { kind: 'failed', reason: `it did not step down in ${STEP_DOWN_MS / 1_000} seconds` };
  };
  const failed = (error: unknown): PartsEnd => ({ kind: 'failed', reason: errorText(error) });
  try {
    return await Promise.race([work(leading).catch(failed), late()]);
  } finally {
    ended.abort();
  }
}

/** Resolves when the signal is aborted. */
export async function aborted(signal: AbortSignal): Promise<undefined> {
  if (signal.aborted) return;
  await new Promise((resolve) => {
    signal.addEventListener('abort', resolve, { once: true });
  });
}
