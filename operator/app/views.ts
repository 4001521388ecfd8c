import { destinationSummary } from '../controllers/destination-status.ts';
import type { BillingView } from '../controllers/views.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { DestinationStatus } from '../delivery/destination-status.ts';
import type { DestinationsView, FleetStreamView, Views } from '../http/views.ts';
import type { StreamName } from '../ledger/fleet.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Noticed } from '../delivery/noticed.ts';
import type { KnownMeter } from './known-meter.ts';

/** A stream as the API shows it: that of an operator, or each of a hub. */
export interface ShownStream {
  readonly name: StreamName;
  readonly ledger: Pick<Ledger, 'stats'>;
  readonly meter: KnownMeter;
  readonly destinations: DestinationsView;
  /** Returns why it is not fed, or undefined. */
  readonly problem?: () => string | undefined;
}

/** Views that differ between streams and concern neither meter nor destinations. */
type OtherViews = Omit<Views, 'discovery' | 'metering' | 'destinations' | 'fleet'>;

/** Views of one stream for the HTTP API. */
export function streamViews(stream: ShownStream, others: OtherViews): Views {
  const { meter, destinations } = stream;
  return {
    ...others,
    discovery: meter,
    metering: meter,
    destinations,
    fleet: () => [fleetStreamView(stream)],
  };
}

/** View of a stream for the page of the fleet. */
export function fleetStreamView(stream: ShownStream): FleetStreamView {
  const { name, meter, ledger, destinations } = stream;
  const report = meter.report();
  const silentMs = meter.silentMs();
  const { sequence, lastWindowEnd } = ledger.stats();
  const statuses = destinations.list();
  return {
    cluster: name.source,
    region: name.region,
    events: sequence,
    lagEvents: Math.max(0, ...statuses.map(({ lagEvents }) => lagEvents)),
    lagSeconds: Math.max(0, ...statuses.map(({ lagSeconds }) => lagSeconds)),
    lastWindowEnd,
    problem: stream.problem?.(),
    ...(report !== undefined &&
      silentMs !== undefined && {
        report: {
          version: report.version,
          role: report.role,
          ready: report.ready,
          waitsFor: report.waitsFor,
          reportedMsAgo: silentMs,
          windowMs: report.windowMs,
          tenants: report.tenants,
          tenantClusters: report.tenantClusters,
          gaps: report.gaps,
          failedTenantApis: report.failedTenantApis.total,
          unattributed: report.unattributed.total,
        },
      }),
  };
}

/** Views of a stream's destinations, with the problems noticed at each. */
export function destinationsView(
  delivery: Delivery,
  noticedOf: (status: DestinationStatus) => Noticed = () => ({}),
): DestinationsView {
  return {
    list: () => delivery.statuses().map((status) => ({ ...status, ...noticedOf(status) })),
    summaryOf: destinationSummary,
    operations: delivery,
  };
}

/** Views of the destinations for the status of BillingDestinations. */
export function billingView(destinations: Pick<DestinationsView, 'list'>): BillingView {
  return {
    backlog: (name) => destinations.list().find((status) => status.name === name)?.backlog,
    // The controllers know more than delivery about destinations that cannot start.
    list: () => destinations.list().filter(({ problem }) => problem?.inForce !== false),
  };
}
