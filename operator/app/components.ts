import { untilAborted } from '../telemetry/abort.ts';
import { errorText } from '../model/error-text.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';

/** Something that works until its signal is aborted. */
export interface Component {
  readonly name: string;
  /**
   * Ends soon after the signal is aborted, with its work in order. An earlier end or a rejection
   * stops all components.
   */
  run(signal: AbortSignal): Promise<void>;
}

/** Why {@link runComponents} ended: the signal was aborted, or a component failed. */
export type ComponentsEnd =
  | { readonly kind: 'stopped' }
  | { readonly kind: 'failed'; readonly reason: string };

/** Longest wait for all components to end. It is below the 60 s that Kubernetes grants the pod. */
export const STOP_DEADLINE_MS = 40_000;

/** Time for a replaced leader to end its work; after it the process ends. */
const STEP_DOWN_MS = 10_000;

/**
 * Runs all components until the signal is aborted or one of them ends. Stops them in reverse order,
 * so that none loses a component that it needs.
 */
export async function runComponents(
  components: readonly Component[],
  signal: AbortSignal,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
): Promise<ComponentsEnd> {
  const running = components.map((component) => {
    const stop = new AbortController();
    return { component, stop, ended: outcomeOf(component, stop.signal) };
  });
  const first = await Promise.race([
    aborted(signal),
    ...running.map(async ({ component, ended }) => `${component.name}: ${await ended}`),
  ]);
  const deadline = new AbortController();
  const late = clock
    .sleep(STOP_DEADLINE_MS, deadline.signal)
    .then(() => 'late' as const)
    .catch(() => 'in time' as const);
  for (const { component, stop, ended } of running.toReversed()) {
    stop.abort();
    const outcome = await Promise.race([ended, late]);
    if (outcome === 'late') logger.error(`[controller] ${component.name} does not stop`);
    logger.debug(`[controller] stopped ${component.name}`);
  }
  deadline.abort();
  return first === undefined ? { kind: 'stopped' } : { kind: 'failed', reason: first };
}

async function outcomeOf(component: Component, signal: AbortSignal): Promise<string> {
  try {
    await component.run(signal);
    return 'ended unasked';
  } catch (error) {
    return errorText(error);
  }
}

/**
 * Runs a leader's work and returns how it ended. It fails in two situations:
 * 1. The work throws.
 * 2. Another process leads, and the work does not end within {@link STEP_DOWN_MS}. A process that
 *    is to stop has the longer {@link STOP_DEADLINE_MS}.
 */
export async function inTime(
  work: (leading: AbortSignal) => Promise<ComponentsEnd>,
  leading: AbortSignal,
  { signal: stopping, clock }: { readonly signal: AbortSignal; readonly clock: Clock },
): Promise<ComponentsEnd> {
  const ended = new AbortController();
  const late = async (): Promise<ComponentsEnd> => {
    await untilAborted(leading, ended.signal);
    if (stopping.aborted) await untilAborted(ended.signal);
    await clock.sleep(STEP_DOWN_MS, ended.signal);
    return { kind: 'failed', reason: `it did not step down in ${STEP_DOWN_MS / 1_000} seconds` };
  };
  const failed = (error: unknown): ComponentsEnd => ({ kind: 'failed', reason: errorText(error) });
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
