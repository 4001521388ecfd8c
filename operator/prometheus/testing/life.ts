import { setTimeout as delay } from 'node:timers/promises';
import { Registry } from 'prom-client';
import { settingsFrom } from '../../settings/testing/settings.ts';
import type { Settings } from '../../settings/settings.ts';
import { createMemoryLogger } from '../../telemetry/testing/memory-logger.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { createManualClock, type ManualClock } from '../../kubernetes/testing/manual-clock.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { START } from '../../metering/meters/testing/times.ts';
import { TenantClusterTimelines } from '../../metering/timelines/tenant-cluster-timeline.ts';
import { createOutbound } from '../../outbound/outbound.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Window } from '../../model/window.ts';
import { CONNECTIONS } from '../query.ts';
import { createEgressMeasure, createUtilizationMeasure } from '../built-in-measures.ts';
import type { Measure } from '../measure.ts';
import { PrometheusClient } from '../prometheus-client.ts';
import { PrometheusMetering, type PrometheusMeteringOptions } from '../prometheus-metering.ts';
import { createPrometheusMetrics, type PrometheusMetrics } from '../prometheus-metrics.ts';

/** One run of metering by Prometheus, on a clock that the test moves and a real HTTP connection. */
export interface PrometheusRun {
  readonly metering: PrometheusMetering;
  readonly metrics: PrometheusMetrics;
  readonly logs: readonly string[];
  /** Moves the clock second by second. Each second's queries are answered within it. */
  pass(seconds: number): Promise<void>;
  /** Ends it like SIGTERM. */
  stop(): Promise<void>;
  /** Ends it like kill -9, with everything in progress. */
  kill(): Promise<void>;
}

export interface LifeOptions {
  readonly ledger: Ledger;
  readonly clock: ManualClock;
  readonly history: TenantClusterTimelines;
  readonly environment: Readonly<Record<string, string>>;
  readonly measures?: (settings: Settings) => readonly Measure[];
  /** The newest window that the collector has closed; by default every window that has ended. */
  readonly lastWindow?: () => Window | undefined;
}

export function clockAt(seconds: number): ManualClock {
  return createManualClock(START + seconds * 1000);
}

export function historyOf(
  clock: ManualClock,
  ...clusters: readonly TenantCluster[]
): TenantClusterTimelines {
  const history = new TenantClusterTimelines();
  history.observe(clusters, clock.now());
  return history;
}

export function settingsOf(environment: Readonly<Record<string, string>>): Settings {
  return settingsFrom({ REGION: 'here', ...environment });
}

/** The measures of egress and utilisation by the settings. */
export function builtInMeasures({ prometheus }: Settings): readonly Measure[] {
  return [createEgressMeasure(prometheus.preset), createUtilizationMeasure(prometheus.preset)];
}

export async function live(options: LifeOptions): Promise<PrometheusRun> {
  const { clock, history } = options;
  const settings = settingsOf(options.environment);
  const registry = new Registry();
  const logger = createMemoryLogger();
  const metrics = createPrometheusMetrics(registry);
  const client = new PrometheusClient({
    outbound: createOutbound({ registry, clock: systemClock, userAgent: 'meterfeed/test' }),
    url: settings.prometheus.url ?? '',
    settings: settings.prometheus,
    readText: async () => '',
    connections: CONNECTIONS,
  });
  let severed = false;
  const gone = { kind: 'failed', cause: 'retryable', message: 'killed' } as const;
  const { ledger } = options;
  const severable: PrometheusMeteringOptions['ledger'] = {
    ...ledger,
    append: async (batch) => (severed ? gone : ledger.append(batch)),
    writeRecords: async (changes) => (severed ? gone : ledger.writeRecords(changes)),
  };
  const measures = (options.measures ?? builtInMeasures)(settings);
  const metering = new PrometheusMetering({
    client,
    measures: () => measures,
    tenantClusters: history,
    lastWindow: options.lastWindow ?? (() => newestWindow(clock.now(), settings.metering.windowMs)),
    ledger: severable,
    settings: () => settings,
    clock,
    random: () => 0.5,
    logger,
    metrics,
  });
  const stop = new AbortController();
  const ended = metering.run(stop.signal);
  const asleep = async (): Promise<void> => {
    while (clock.sleepers === 0) await delay(1);
  };
  await asleep();
  const end = async (): Promise<void> => {
    stop.abort();
    await ended;
    await client.close();
  };
  return {
    metering,
    metrics,
    logs: logger.lines,
    pass: async (seconds) => {
      for (let second = 0; second < seconds; second += 1) {
        await clock.advance(1000);
        await asleep();
      }
    },
    stop: end,
    kill: async () => {
      severed = true;
      await end();
    },
  };
}

/** Everything in a ledger, in order. */
export async function eventsOf(ledger: Ledger): Promise<UsageEvent[]> {
  const page = await ledger.read(0, 1_000_000);
  if (page.kind === 'failed') throw new Error(page.message);
  return page.events.map(({ event }) => event);
}

/** `12:01:00 3 tenant-x`: an event's window end, quantity and tenant. */
export function brief(event: UsageEvent): string {
  return `${event.window_end.slice(11, 19)} ${event.quantity} ${event.tenant}`;
}

function newestWindow(now: number, sizeMs: number): Window {
  const end = Math.floor(now / sizeMs) * sizeMs;
  return { start: end - sizeMs, end };
}
