import { randomBytes } from 'node:crypto';
import type { Controllers } from '../controllers/controllers.ts';
import { createLeaderElection } from '../kubernetes/lease.ts';
import { createReflectorMetrics, createWorkQueueMetrics } from '../kubernetes/metrics.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import { createOutbound } from '../outbound/outbound.ts';
import { createCollectorMetrics } from '../windows/collector-metrics.ts';
import type { BuildContext, OperatorOptions } from './build-context.ts';
import { buildClusterView } from './cluster-view.ts';
import { compareWithStatus } from './compare-with-status.ts';
import { CustomResources, whenConfigured } from './custom-resources.ts';
import { buildDelivery } from './delivery.ts';
import { buildMetering } from './metering.ts';
import { exportTelemetry } from './otlp.ts';
import { aborted, leaderPart, type Part } from './parts.ts';
import { buildSurface } from './surface.ts';

/** The name of the Lease in the operator's own namespace, which config/rbac repeats. */
const LEASE = 'meterfeed';

/**
 * Longer than the usual 15 s: there is no standby in a hurry, a restart takes its own lease back at
 * once, and a short absence of the API server must not end the only meter there is.
 */
const LEASE_TIMINGS = { duration: 60_000, renewDeadline: 45_000, renew: 9_000, retry: 3_000 };

const RETENTION_INTERVAL_MS = 60_000;

/**
 * Builds the operator in the direction in which usage flows (docs/architecture.md). Health and API are
 * served from the beginning; the rest waits until this process leads.
 */
export async function buildOperator(options: OperatorOptions): Promise<readonly Part[]> {
  const { connection, ledger, clock, random, logger, registry } = options;
  const customResources = new CustomResources(() => watchesFit(options));
  const outbound = createOutbound({
    registry,
    clock,
    userAgent: `meterfeed/${options.version}`,
  });
  const telemetry = await exportTelemetry(options, outbound);
  const context: BuildContext = {
    ...options,
    customResources,
    collectorMetrics: createCollectorMetrics(registry),
    reflectorMetrics: createReflectorMetrics(registry),
    queueMetrics: createWorkQueueMetrics(registry),
    outbound,
    ...omitUndefined({ tracer: telemetry.tracer }),
  };
  const cluster = await buildClusterView(context);
  const metering = await buildMetering(context, cluster);
  const billing = await buildDelivery(context, cluster, metering);
  const lineage = `${options.instance}_${ledger.stats().ledgerId}_`;
  const election = createLeaderElection({
    clock,
    random,
    logger,
    connection,
    namespace: options.namespace,
    name: LEASE,
    // A copy of the volume has the pod's name and the ledger's id as well, and a lock of its own.
    identity: lineage + randomBytes(4).toString('hex'),
    // A restart on the same volume takes the lease back that the process before it has left.
    succession: { prefix: lineage, head: () => ledger.head() },
    timings: LEASE_TIMINGS,
  });
  const { http, controllers, plans, budgets } = buildSurface(context, {
    settings: options.settings,
    ledger,
    cluster,
    metering,
    billing,
    running: () => !options.stopping.aborted,
    leading: () => election.leading,
  });
  customResources.bind(controllers);
  const parts: readonly Part[] = [
    // How long usage is kept may be the policy's word.
    whenConfigured(customResources, {
      name: 'retention',
      run: (signal) => retain(options, signal),
    }),
    ...spoolParts(options),
    ...cluster.parts,
    { name: 'controllers', run: (signal) => controllers.run(signal) },
    { name: 'namespaces', run: (signal) => compareNamespaces(options, controllers, signal) },
    ...billing.parts,
    ...metering.parts,
    plans,
    budgets,
  ];
  const prepare = (signal: AbortSignal) => compareWithStatus(options, signal);
  return [...telemetry.parts, http, leaderPart(election, prepare, parts, { clock, logger })];
}

/** Brings into the ledger what waits for it; ended after everything that is written through it. */
function spoolParts({ spool }: Pick<OperatorOptions, 'spool'>): readonly Part[] {
  return spool === undefined ? [] : [{ name: 'spool', run: (signal) => spool.run(signal) }];
}

/** Whether the watches are of the namespaces that the settings name. */
function watchesFit({ settings, watchNamespaces }: OperatorOptions): boolean {
  const named = settings.current().discovery.watchNamespaces;
  return (
    named.every((name) => watchNamespaces.includes(name)) &&
    watchNamespaces.every((name) => named.includes(name))
  );
}

async function compareNamespaces(
  options: OperatorOptions,
  controllers: Pick<Controllers, 'ready'>,
  signal: AbortSignal,
): Promise<void> {
  const { settings } = options;
  await controllers.ready(signal).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  const look = (): void => {
    if (watchesFit(options)) return;
    options.onOtherNamespaces(settings.current().discovery.watchNamespaces);
  };
  if (signal.aborted) return;
  const leave = settings.subscribe(look);
  look();
  await aborted(signal);
  leave();
}

async function retain(
  { settings, ledger, clock }: OperatorOptions,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    ledger.setRetention(settings.current().ledger.retentionMs);
    await ledger.retain(clock.now());
    await clock.sleep(RETENTION_INTERVAL_MS, signal).catch(() => undefined);
  }
}
