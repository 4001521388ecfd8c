import { type MeterFacts, reportMeter } from './fleet/meter-report.ts';
import type { BuildContext } from './build-context.ts';
import type { ClusterView } from './cluster-view.ts';
import { whenConfigured } from './custom-resources.ts';
import type { Billing } from './delivery.ts';
import type { KnownMeter } from './known-meter.ts';
import type { Metering } from './metering.ts';
import { openGaps } from './open-gaps.ts';
import type { Component } from './components.ts';

export interface Reported {
  readonly cluster: ClusterView;
  readonly billing: Billing;
  readonly metering: Metering;
  readonly meter: KnownMeter<MeterFacts>;
}

/**
 * Writes the facts that only this process knows as the meter of its stream, for a hub
 * (docs/how-to/fleet.md#what-a-meter-reports). It reports nothing before the custom resources are
 * known: a hub would feed the operator's own destinations.
 */
export function fleetReports(context: BuildContext, reported: Reported): Component {
  const { ledger, clock, logger, environment } = context;
  const { cluster, meter } = reported;
  let passes = 0;
  return whenConfigured(context.customResources, {
    name: 'reports to the fleet',
    run: async (signal) => {
      const leave = cluster.discovery.subscribe(() => {
        passes += 1;
      });
      await reportMeter(
        {
          ledger,
          clock,
          logger,
          discoveryPasses: () => passes,
          clusters: () => (meter.known() ? meter.clusters() : undefined),
          report: meter.report,
          ...(environment.role === 'meter' && {
            acceptDepartures: () => acceptDepartures(context, reported),
          }),
        },
        signal,
      );
      leave();
    },
  });
}

/**
 * Accepts the departure of each tenant for which no gap can bring usage, or that left more than
 * MAX_BACKFILL ago. Offboards it at the own destinations first; a hub reads accepted departures in
 * the records of discovery.
 */
async function acceptDepartures(
  { settings, clock, logger }: BuildContext,
  { cluster, metering, billing }: Reported,
): Promise<void> {
  const { discovery, observation } = cluster;
  const left = discovery.offboarded();
  if (left.length === 0) return;
  const fillableFrom = clock.now() - settings.current().metering.maxBackfillMs;
  const mayCome = openGaps(metering.gaps(), observation.tenantClusters, fillableFrom);
  for (const { tenant, at } of left) {
    if (at > fillableFrom && mayCome(tenant.id)) continue;
    const requested = await billing.stream.delivery.offboard(tenant);
    if (requested.kind === 'failed') logger.warn(`[fleet] ${requested.message}`);
    else discovery.acceptOffboarding(tenant.id);
  }
}
