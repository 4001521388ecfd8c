import type { Delivery } from '../delivery/delivery.ts';
import { MOST_ITEMS } from '../fleet/meter-report.ts';
import { type MeterReporterOptions, reportMeter } from '../fleet/meter-reporter.ts';
import type { Views } from '../http/views.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import type { BuildContext } from './build-context.ts';
import type { ClusterView } from './cluster-view.ts';
import { whenConfigured } from './custom-resources.ts';
import type { Metering } from './metering.ts';
import { openGaps } from './open-gaps.ts';
import type { Part } from './parts.ts';
import { attributionProblems, failedTenantApis, lastUnattributed } from './views.ts';

interface Told {
  readonly cluster: ClusterView;
  readonly delivery: Pick<Delivery, 'offboard'>;
  readonly metering: Metering;
  readonly readiness: Views['readiness'];
}

/**
 * Tells whoever reads or feeds the stream elsewhere what only its meter knows, while this process is that
 * (docs/fleet.md#what-a-meter-tells). Nothing before it knows which destinations are its own: a hub would feed them.
 */
export function tellFleet(context: BuildContext, told: Told): Part {
  const { ledger, clock, logger, environment } = context;
  const { discovery } = told.cluster;
  let rounds = 0;
  return whenConfigured(context.customResources, {
    name: 'word to the fleet',
    run: async (signal) => {
      const leave = discovery.subscribe(() => {
        rounds += 1;
      });
      await reportMeter(
        {
          ledger,
          clock,
          logger,
          rounds: () => rounds,
          clusters: () => (discovery.known() ? discovery.clusters() : undefined),
          report: () => reportOf(context, told),
          ...(environment.role === 'meter' && {
            acceptDepartures: () => acceptDepartures(context, told),
          }),
        },
        signal,
      );
      leave();
    },
  });
}

function reportOf(
  { version, environment, settings, customResources }: BuildContext,
  { cluster, metering, readiness }: Told,
): ReturnType<MeterReporterOptions['report']> {
  const { discovery, tenantApis } = cluster;
  const { windows } = metering;
  const current = settings.current();
  const failed = failedTenantApis({ cluster, metering });
  const without = tenantApis.withoutKubeconfig();
  const waiting = readiness().filter(({ ok }) => !ok);
  return {
    version,
    role: environment.role,
    ready: waiting.length === 0,
    waitsFor: waiting.map(({ name, detail = name }) => detail),
    windowMs: current.metering.windowMs,
    ownDestinations: customResources.destinations().map(({ name }) => name),
    tenants: discovery.tenants().length,
    tenantClusters: discovery.clusters().length,
    customMetrics: current.metering.customMetrics,
    measuredMetrics: metering.catalog().metrics.filter(({ source }) => source === 'prometheus'),
    gaps: metering.gaps().length,
    failedTenantApis: { total: failed.length, items: failed.slice(0, MOST_ITEMS) },
    withoutKubeconfig: { total: without.length, items: without.slice(0, MOST_ITEMS) },
    unattributed: lastUnattributed(windows),
    problems: attributionProblems({ discovery, windows }).slice(0, MOST_ITEMS),
    ...omitUndefined({ metricsFailure: windows.metricsFailure }),
  };
}

/**
 * Accepts the departure of each tenant that no gap can bring usage for, or that left more than MAX_BACKFILL ago. Own destinations
 * are asked before; a hub reads the accepted departures in the records of discovery.
 */
async function acceptDepartures(
  { settings, clock, logger }: BuildContext,
  { cluster, metering, delivery }: Told,
): Promise<void> {
  const { discovery, observation } = cluster;
  const left = discovery.offboarded();
  if (left.length === 0) return;
  const fillableFrom = clock.now() - settings.current().metering.maxBackfillMs;
  const mayCome = openGaps(metering.gaps(), observation.tenantClusters, fillableFrom);
  for (const { tenant, at } of left) {
    if (at > fillableFrom && mayCome(tenant.id)) continue;
    const asked = await delivery.offboard(tenant);
    if (asked.kind === 'failed') logger.warn(`[fleet] ${asked.message}`);
    else discovery.acceptOffboarding(tenant.id);
  }
}
