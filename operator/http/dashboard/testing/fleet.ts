import type { Settings } from '../../../settings/settings.ts';
import { createFleetLedger, createFleetTotals } from '../../../app/fleet/fleet-ledger.ts';
import type { Ledger } from '../../../ledger/ledger.ts';
import { NOW } from '../../testing/test-server.ts';
import type { HttpServerOptions, ServedStream } from '../../server.ts';
import type { FleetStreamView, Views } from '../../views.ts';

const REPORT: NonNullable<FleetStreamView['report']> = {
  version: '0.1.0',
  role: 'meter',
  ready: true,
  waitsFor: [],
  reportedMsAgo: 2_000,
  windowMs: 60_000,
  tenants: 5,
  tenantClusters: 5,
  gaps: 0,
  failedTenantApis: 0,
  unattributed: 0,
};

/** Three clusters, one of which is well, one of which is silent, and one that cannot be read. */
const STREAMS: readonly FleetStreamView[] = [
  {
    cluster: 'berlin',
    region: 'eu-central',
    events: 48_210,
    lastWindowEnd: NOW - 20_000,
    lagEvents: 0,
    lagSeconds: 0,
    report: REPORT,
  },
  {
    cluster: 'paris',
    region: 'eu-west',
    problem: 'its meter has reported nothing for 312 s',
    events: 20_114,
    lastWindowEnd: NOW - 360_000,
    lagEvents: 61,
    lagSeconds: 300,
    report: { ...REPORT, version: '0.0.9', reportedMsAgo: 312_000, gaps: 2, failedTenantApis: 1 },
  },
  {
    cluster: 'rome',
    region: 'eu-west',
    problem:
      'REGION "eu-west" of "rome" in db-2:5432/ledger is not unique: "paris" in db-1:5432/ledger has the same; give them different ones',
    events: 0,
    lagEvents: 0,
    lagSeconds: 0,
  },
];

export interface TestFleet extends Pick<HttpServerOptions, 'streams' | 'totals'> {
  readonly environment: Readonly<Record<string, string>>;
  readonly ledger: Ledger;
  readonly views: Partial<Views>;
}

/** A hub over streams that all have the same ledger and views, but for their names. */
export function createTestFleet(
  ledger: Ledger,
  views: Partial<Views>,
  settings: () => Settings,
  complete: () => Views,
): TestFleet {
  const streams = STREAMS.filter(({ report }) => report !== undefined).map(
    ({ cluster, region }): ServedStream => ({
      source: cluster,
      ledger,
      totals: () => undefined,
      get views(): Views {
        const { identity, ...rest } = settings();
        return {
          ...complete(),
          ...views,
          settings: () => ({ ...rest, identity: { ...identity, clusterName: cluster, region } }),
          fleet: () => STREAMS.filter((one) => one.cluster === cluster),
        };
      },
    }),
  );
  const totals = createFleetTotals(() => streams);
  return {
    environment: { ROLE: 'hub', LEDGER_URL: 'postgresql://m@db-1/ledger', CLUSTER_NAME: 'hub' },
    ledger: createFleetLedger(() => streams),
    totals: () => totals,
    streams: () => streams,
    views: { ...views, fleet: () => STREAMS },
  };
}
