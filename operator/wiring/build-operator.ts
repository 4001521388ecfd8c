import type { Controllers } from '../controllers/controllers.ts';
import { createReflectorMetrics, createWorkQueueMetrics } from '../kubernetes/metrics.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import { createOutbound } from '../outbound/outbound.ts';
import type { ReadinessCheck } from '../http/views.ts';
import { createCollectorMetrics } from '../windows/collector-metrics.ts';
import type { BuildContext, OperatorOptions } from './build-context.ts';
import { ClusterHolder } from './cluster-holder.ts';
import { buildClusterView } from './cluster-view.ts';
import { compareWithStatus } from './compare-with-status.ts';
import { CustomResources, whenConfigured } from './custom-resources.ts';
import { buildDelivery } from './delivery.ts';
import { buildMetering } from './metering.ts';
import { exportTelemetry } from './otlp.ts';
import { aborted, type Part, runParts } from './parts.ts';
import { buildSurface } from './surface.ts';
import { tellFleet } from './tell-fleet.ts';

/** The name of the Lease in the operator's own namespace, which config/rbac repeats. */
export const LEASE = 'meterfeed';

const RETENTION_INTERVAL_MS = 60_000;

/** Builds the operator of a process that leads, in the direction in which usage flows (docs/architecture.md). */
export async function buildOperator(options: OperatorOptions): Promise<readonly Part[]> {
  const { connection, ledger, clock, logger, registry, namespace } = options;
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
  const holding = { connection, namespace, clock, logger, registry };
  const { ledgerId } = ledger.stats();
  const holder = new ClusterHolder({ ...holding, lease: LEASE, ledgerId });
  const { http, controllers, plans, budgets, readiness } = buildSurface(context, {
    settings: options.settings,
    ledger,
    cluster,
    metering,
    billing,
    running: () => !options.stopping.aborted,
    mayAct: options.mayAct,
  });
  customResources.bind(controllers);
  const metered: readonly Part[] = [
    ...cluster.parts,
    { name: 'controllers', run: (signal) => controllers.run(signal) },
    { name: 'namespaces', run: (signal) => compareNamespaces(options, controllers, signal) },
    ...billing.parts,
    { name: 'holder', run: (signal) => holder.run(signal) },
    // How long usage is kept may be the policy's word.
    whenConfigured(customResources, {
      name: 'retention',
      run: (signal) => retain(options, signal),
    }),
    ...metering.parts,
    plans,
    budgets,
    ...(options.isDatabase
      ? [tellFleet(context, { cluster, metering, delivery: billing.delivery, readiness })]
      : []),
    ...labelParts(options, readiness),
  ];
  return [
    ...telemetry.parts,
    http,
    {
      name: 'leader',
      run: async (signal) => {
        await holder.claim(signal);
        if (!signal.aborted) await compareWithStatus(options, signal);
        if (signal.aborted) return;
        const end = await runParts(metered, signal, { clock, logger });
        if (end.kind === 'failed') throw new Error(end.reason);
      },
    },
  ];
}

const LISTED_POLL_MS = 500;

/** Puts the label of the leader on the own pod once everything is listed, and takes it off before anything else ends. */
function labelParts(
  { label, clock }: Pick<OperatorOptions, 'label' | 'clock'>,
  readiness: () => readonly ReadinessCheck[],
): readonly Part[] {
  if (label === undefined) return [];
  const run = async (signal: AbortSignal): Promise<void> => {
    while (!signal.aborted && readiness().some(({ ok }) => !ok)) {
      await clock.sleep(LISTED_POLL_MS, signal).catch(() => undefined);
    }
    await label.set(signal);
    await aborted(signal);
    await label.remove(AbortSignal.timeout(REMOVE_MS));
  };
  return [{ name: 'label', run }];
}

/** What cannot be removed in this time is removed while the process stands by. */
const REMOVE_MS = 2_000;

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
