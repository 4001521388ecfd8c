import type { Settings } from '../../settings/settings.ts';
import { sampleIntervalMs } from '../timelines/usage-samples.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { singleWatches } from './host-scope.ts';
import type { CollectorSources } from './scope.ts';
import type { UsageSampler } from './usage-sampler.ts';

/** Longest sleep, because the wall clock may be set meanwhile. */
const MAX_SLEEP_MS = 1_000;

/** Samples after the first list of pods and then at multiples of the interval, until the abort. */
export async function sampleRegularly(
  sampler: Pick<UsageSampler, 'sample'>,
  {
    sources,
    settings,
    clock,
  }: {
    readonly sources: Pick<CollectorSources, 'pods'>;
    /** Read again for every sample. */
    readonly settings: () => Settings;
    readonly clock: Clock;
  },
  signal: AbortSignal,
): Promise<void> {
  const sample = async (): Promise<void> => {
    if (!signal.aborted) await sampler.sample(clock.now(), signal);
  };
  // Only an abort ends the wait without a list.
  await Promise.any(singleWatches([sources.pods]).map((watch) => watch.ready(signal))).catch(
    () => undefined,
  );
  await sample();
  while (!signal.aborted) {
    const interval = sampleIntervalMs(settings().metering.windowMs);
    const next = (Math.floor(clock.now() / interval) + 1) * interval;
    await sleepUntil(clock, next, signal);
    await sample();
  }
}

/** Sleeps until `due` in short stretches, because the wall clock may be set meanwhile. */
async function sleepUntil(clock: Clock, due: number, signal: AbortSignal): Promise<void> {
  const begun = clock.now();
  while (!signal.aborted && clock.now() < due && clock.now() >= begun - MAX_SLEEP_MS) {
    const wait = Math.min(due - clock.now(), MAX_SLEEP_MS);
    await clock.sleep(wait, signal).catch(() => undefined);
  }
}
