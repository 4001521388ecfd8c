import { createSettingsStore } from '../../settings/settings-store.ts';
import type { SettingsStore } from '../../settings/settings.ts';
import type { ExistingDestination } from '../../delivery/destination-status.ts';
import {
  type CapturingLogger,
  createCapturingLogger,
} from '../../kubernetes/testing/capturing-logger.ts';
import { connectWith } from '../../kubernetes/testing/connect.ts';
import type { WriteOutcome } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { BUILT_IN_METRICS } from '../../model/catalog.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import type { Retired } from '../billing-destination.ts';
import { createControllers } from '../controllers.ts';
import type { PriceRecords } from '../stored-price-books.ts';
import type { PolicyViews } from '../policy-status.ts';
import { viewsOf } from './facts.ts';
import { settingsFrom } from '../../settings/testing/settings.ts';

/** Controllers at work, over an engine that the test speaks for. */
export interface ControllersRig {
  readonly settings: SettingsStore;
  readonly logger: CapturingLogger;
  /** What the engine is said to do; replace its members to change it. */
  readonly engine: { -readonly [View in keyof PolicyViews]: PolicyViews[View] };
  /** The BillingDestinations that exist, as delivery is told of them. */
  destinations(): readonly ExistingDestination[];
  pricesKnown(): boolean;
  /** Destinations whose cursor was retired, in order. */
  readonly retired: readonly string[];
  /** What retiring the next cursors comes to. */
  retirement: Retired;
  /** What reserving cursors comes to. */
  reservation: () => WriteOutcome;
  /** Resolves when the controllers have let go of everything. */
  stop(): Promise<void>;
}

export interface ControllersRigOptions {
  readonly kubeconfig: string;
  readonly namespace: string;
  readonly environment?: Readonly<Record<string, string>>;
  /** A ledger in memory of its own, unless given. */
  readonly records?: PriceRecords;
}

/**
 * Starts the controllers with short intervals, and resolves when they have looked at everything.
 */
export async function startControllers(options: ControllersRigOptions): Promise<ControllersRig> {
  const environment = settingsFrom(options.environment ?? {});
  const settings = createSettingsStore(environment);
  const connection = connectWith(options.kubeconfig);
  const logger = createCapturingLogger();
  const stopping = new AbortController();
  const engine: ControllersRig['engine'] = viewsOf();
  const retired: string[] = [];
  const controllers = createControllers({
    connection,
    namespace: options.namespace,
    instance: 'meterfeed-0',
    settings,
    environment,
    delivery: {
      list: () => engine.delivery.list(),
      backlog: () => undefined,
    },
    tenants: {
      known: () => engine.tenants.known(),
      clusters: () => engine.tenants.clusters(),
      problems: () => engine.tenants.problems(),
      overrides: () => engine.tenants.overrides(),
    },
    windows: {
      lastWindowEnd: () => engine.windows.lastWindowEnd(),
      gaps: () => engine.windows.gaps(),
      failedTenantApis: () => engine.windows.failedTenantApis(),
      withoutKubeconfig: () => engine.windows.withoutKubeconfig(),
      unattributed: () => engine.windows.unattributed(),
      metricsFailure: () => engine.windows.metricsFailure(),
      prometheus: () => engine.windows.prometheus(),
    },
    ledger: { stats: () => engine.ledger.stats() },
    records: options.records ?? createMemoryLedger(),
    knowsMetric: (code) => BUILT_IN_METRICS.some((metric) => metric.code === code),
    enforcement: {
      mode: () => engine.enforcement.mode(),
      status: () => engine.enforcement.status(),
    },
    budgets: { list: () => [] },
    anchors: { problems: () => engine.anchors.problems() },
    focusProblem: () => undefined,
    held: {
      list: () => engine.held.list(),
      pushedTenants: () => engine.held.pushedTenants(),
    },
    cursors: {
      reserve: async () => rig.reservation(),
      retire: async (destination) => {
        if (rig.retirement.kind === 'retired') retired.push(destination);
        return rig.retirement;
      },
    },
    clock: systemClock,
    random: Math.random,
    logger,
    timings: { report: 50, statusInterval: 200, secrets: 100 },
  });
  const running = controllers.run(stopping.signal);
  const rig: ControllersRig = {
    settings,
    logger,
    engine,
    retired,
    destinations: () => controllers.destinations(),
    pricesKnown: () => controllers.pricesKnown(),
    retirement: { kind: 'retired' },
    reservation: () => ({ kind: 'written' }),
    stop: async () => {
      stopping.abort();
      await running;
      await connection.close();
    },
  };
  await controllers.ready(AbortSignal.timeout(10_000));
  return rig;
}
