import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { PRIVATE_NODES_SOURCE } from './private-node-limit.ts';

/** The sources of gaps that the collector counts. */
const GAP_SOURCES = ['collector', 'metrics', 'resourceslices', PRIVATE_NODES_SOURCE];

/** Registers the collector's own metrics (docs/how-to/operate.md#metrics). */
export function createCollectorMetrics(registry: Registry) {
  const registers = [registry];
  const gapSeconds = new Counter({
    name: 'meterfeed_gap_seconds_total',
    help: 'Time for which something could not be measured, by what failed.',
    labelNames: ['source'],
    registers,
  });
  // Prometheus sees the first increase of a series only if the series existed before it.
  for (const source of GAP_SOURCES) gapSeconds.inc({ source }, 0);
  return {
    closeSeconds: new Histogram({
      name: 'meterfeed_window_close_seconds',
      help: 'Time to measure a window and append it to the ledger.',
      buckets: [0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    }),
    events: new Gauge({
      name: 'meterfeed_window_events',
      help: 'Events of the last closed window.',
      registers,
    }),
    gapSeconds,
    clampedTimes: new Counter({
      name: 'meterfeed_clamped_times_total',
      help: 'Impossible times from the Kubernetes API that were moved to the nearest possible one.',
      registers,
    }),
    uncertainSeconds: new Counter({
      name: 'meterfeed_uncertain_seconds_total',
      help: 'Sum of the property uncertain_seconds of all events: how inexact the times of unobserved changes are.',
      registers,
    }),
    clockSteps: new Counter({
      name: 'meterfeed_clock_steps_total',
      help: 'Steps of the wall clock of more than 30 seconds.',
      registers,
    }),
    backfilledWindows: new Counter({
      name: 'meterfeed_backfilled_windows_total',
      help: 'Windows that were closed after downtime or a failed source.',
      registers,
    }),
    lagSeconds: new Gauge({
      name: 'meterfeed_window_lag_seconds',
      help: 'Seconds since the end of the oldest window that is not closed yet.',
      registers,
    }),
    unaccountedGpuSeconds: new Gauge({
      name: 'meterfeed_unaccounted_gpu_seconds',
      help: 'Installed GPU-seconds of the last window that were not billed, idle, down or used by the system. Always 0.',
      registers,
    }),
    unattributedObjects: new Gauge({
      name: 'meterfeed_unattributed_objects',
      help: 'Objects of the last window without a known owner. Nobody is billed for them.',
      registers,
    }),
    unattributedGpuSeconds: new Counter({
      name: 'meterfeed_unattributed_gpu_seconds_total',
      help: 'GPU-seconds of objects without a known owner. Nobody is billed for them.',
      registers,
    }),
    quarantined: new Gauge({
      name: 'meterfeed_quarantined_scopes',
      help: 'Tenant clusters or kinds of usage that are left out of windows because measuring or writing them failed.',
      registers,
    }),
    ...privateNodeMetrics(registers),
    expiredReversalSeconds: new Counter({
      name: 'meterfeed_expired_reversal_seconds_total',
      help: 'Object time that was billed too much and not given back within MAX_BACKFILL.',
      registers,
    }),
  };
}

export type CollectorMetrics = ReturnType<typeof createCollectorMetrics>;

function privateNodeMetrics(registers: Registry[]) {
  return {
    privateNodeFlaps: new Counter({
      name: 'meterfeed_private_node_flaps_total',
      help: 'How often private nodes of tenant clusters went down, as their own API reports it.',
      registers,
    }),
    privateNodeRelabels: new Counter({
      name: 'meterfeed_private_node_relabels_total',
      help: 'Labels of private nodes that were changed to a cheaper value or to one that may be cheaper.',
      registers,
    }),
    privateNodeDowntimeExceeded: new Gauge({
      name: 'meterfeed_private_node_downtime_exceeded',
      help: 'Tenant clusters whose private nodes were down for more of the last day than privateNodeDowntimePercent.',
      registers,
    }),
  };
}
