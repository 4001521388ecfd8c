import { destinationSummary } from '../controllers/destination-status.ts';
import type { BillingView } from '../controllers/views.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { DestinationStatus } from '../delivery/destination-status.ts';
import type { DestinationsView, FleetStreamView, Views } from '../http/views.ts';
import type { StreamName } from '../ledger/fleet.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Noticed } from '../delivery/noticed.ts';
import type { KnownMeter } from './known-meter.ts';

/** A stream as it is shown: that of an operator, and each of a hub. */
export interface ShownStream {
  readonly name: StreamName;
  readonly ledger: Pick<Ledger, 'stats'>;
  readonly meter: KnownMeter;
  readonly destinations: DestinationsView;
  /** Why it is not fed, if that is so. */
  readonly problem?: () => string | undefined;
}

/** What differs from one stream to another, and is no matter of its meter or its destinations. */
type OtherViews = Omit<Views, 'discovery' | 'metering' | 'destinations' | 'fleet'>;

/** What the HTTP API shows of one stream. */
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

/** A stream on the page of the fleet. */
export function fleetStreamView(stream: ShownStream): FleetStreamView {
  const { name, meter, ledger, destinations } = stream;
  const report = meter.report();
  const toldMsAgo = meter.silentMs();
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
      toldMsAgo !== undefined && {
        report: {
          version: report.version,
          role: report.role,
          ready: report.ready,
          waitsFor: report.waitsFor,
          reportedMsAgo: toldMsAgo,
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

/** The destinations of a stream, with what is noticed of each. */
export function destinationsView(
  delivery: Delivery,
  noticedOf: (status: DestinationStatus) => Noticed = () => ({}),
): DestinationsView {
  return {
    list: () => delivery.statuses().map((status) => ({ ...status, ...noticedOf(status) })),
    summaryOf: destinationSummary,
    deadLetters: (name, after, limit) => delivery.deadLetters(name, after, limit),
    replay: (name, ids, force) => delivery.replay(name, ids, force),
    discard: (name, ids) => delivery.discard(name, ids),
    moveCursor: (name, sequence, force) => delivery.moveCursor(name, sequence, force),
    reconcile: (name, query, signal) => delivery.reconcile(name, query, signal),
    comparePrices: (name, question, signal) => delivery.comparePrices(name, question, signal),
    predictCorrection: (name, stored) => delivery.predictCorrection(name, stored),
  };
}

/** The destinations as the status of BillingDestinations shows them. */
export function billingView(destinations: Pick<DestinationsView, 'list'>): BillingView {
  return {
    backlog: (name) => destinations.list().find((status) => status.name === name)?.backlog,
    // Of what cannot start the controllers know more than delivery does.
    list: () => destinations.list().filter(({ problem }) => problem?.inForce !== false),
  };
}
