import { randomBytes } from 'node:crypto';
import { Gauge } from 'prom-client';
import type { Controllers } from '../controllers/controllers.ts';
import { createLeaderElection } from '../kubernetes/lease.ts';
import { createReflectorMetrics, createWorkQueueMetrics } from '../kubernetes/metrics.ts';
import { feederLease } from '../delivery/shared-feeders.ts';
import type { ReplicasView } from '../http/views.ts';
import type { Replica } from '../ledger/ledger.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import { createOutbound } from '../outbound/outbound.ts';
import type { Clock } from '../telemetry/clock.ts';
import { createCollectorMetrics } from '../windows/collector-metrics.ts';
import type { BuildContext, OperatorOptions } from './build-context.ts';
import { ClusterHolder } from './cluster-holder.ts';
import { buildClusterView, type ClusterView } from './cluster-view.ts';
import { compareWithStatus } from './compare-with-status.ts';
import { CustomResources, whenConfigured } from './custom-resources.ts';
import { buildDelivery } from './delivery.ts';
import { buildMetering } from './metering.ts';
import { exportTelemetry } from './otlp.ts';
import { aborted, leaderPart, type Part } from './parts.ts';
import { Role } from './role.ts';
import { buildSurface } from './surface.ts';
import { takeOver } from './take-over.ts';
import { tellFleet } from './tell-fleet.ts';

/** The name of the Lease in the operator's own namespace, which config/rbac repeats. */
const LEASE = 'meterfeed';

/**
 * Longer than the usual 15 s: there is no standby in a hurry, a restart takes its own lease back at
 * once, and a short absence of the API server must not end the only meter there is.
 */
const ALONE = { duration: 60_000, renewDeadline: 45_000, renew: 9_000, retry: 3_000 };

/**
 * Of several replicas one takes over three seconds after the last renewal that it saw, so that no window is much later than that.
 * Whoever could not renew goes on for longer than that: what it writes is refused from the moment at which another one leads, and a short absence of
 * the API server ends nobody (docs/ledger-format.md#several-replicas).
 */
const SHARED = { duration: 3_000, renewDeadline: 45_000, renew: 1_000, retry: 250 };

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
  const { replica } = options;
  const role = new Role({ isShared: replica !== undefined });
  const context: BuildContext = {
    ...options,
    role,
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
    // A restart on the same volume takes the lease back that the process before it has left. Of several none has a volume.
    ...(role.isShared
      ? { timings: SHARED }
      : { timings: ALONE, succession: { prefix: lineage, head: () => ledger.head() } }),
  });
  const { namespace } = options;
  const holding = { connection, namespace, clock, logger, registry };
  const { ledgerId } = ledger.stats();
  const holder = new ClusterHolder({ ...holding, lease: LEASE, ledgerId });
  const leading: Gauge = new Gauge({
    name: 'meterfeed_leading',
    help: '1 on the process that meters, 0 on one that waits to',
    registers: [registry],
    collect: () => leading.set(Number(election.leading && role.leads())),
  });
  const { http, controllers, plans, budgets, readiness } = buildSurface(context, {
    settings: options.settings,
    ledger,
    cluster,
    metering,
    billing,
    running: () => !options.stopping.aborted,
    mayAnswer: () => role.isShared || election.leading,
    ...omitUndefined({ replicas: replica && replicasView(role, replica) }),
  });
  customResources.bind(controllers);
  const everywhere: readonly Part[] = [
    ...cluster.parts,
    { name: 'controllers', run: (signal) => controllers.run(signal) },
    { name: 'namespaces', run: (signal) => compareNamespaces(options, controllers, signal) },
    ...billing.parts,
    ...metering.parts,
  ];
  const metersOwn: readonly Part[] = [
    { name: 'holder', run: (signal) => holder.run(signal) },
    // How long usage is kept may be the policy's word.
    whenConfigured(customResources, {
      name: 'retention',
      run: (signal) => retain(options, signal),
    }),
    ...spoolParts(options),
    ...cluster.meterParts,
    ...billing.meterParts,
    ...metering.meterParts,
    plans,
    budgets,
    ...(replica === undefined
      ? []
      : [tellFleet(context, { cluster, metering, delivery: billing.delivery, readiness })]),
  ];
  const compare = (signal: AbortSignal) => compareWithStatus(options, signal);
  const takeUp = async (): Promise<void> => metering.windows.lead(await cluster.takeUp());
  if (replica === undefined) {
    const begin = async (signal: AbortSignal): Promise<void> => {
      await holder.claim(signal);
      if (!signal.aborted) await compare(signal);
      if (!signal.aborted) await takeUp();
    };
    const leader = leaderPart(election, begin, [...everywhere, ...metersOwn], { clock, logger });
    return [...telemetry.parts, http, leader];
  }
  const lead = (signal: AbortSignal): Promise<void> =>
    takeOver(
      { ...options, replica },
      [
        ['holder', (signal) => holder.claim(signal)],
        ['status', compare],
        ['journal', takeUp],
        ['held', () => billing.takeUp()],
        [
          'discovery',
          () => {
            role.lead();
            controllers.lookAgain();
            // Windows wait for a look at the tenant clusters that is newer than the take-over.
            return cluster.discovery.round();
          },
        ],
      ],
      signal,
    );
  return [
    ...telemetry.parts,
    http,
    { name: 'leases of feeders', run: (signal) => replica.leases.run(signal) },
    ...everywhere,
    afterLists(cluster, clock, leaderPart(election, lead, metersOwn, { clock, logger })),
  ];
}

/** So long a replica may take for its first lists; where one cannot be had, it leads without. */
const LISTS_MS = 30_000;

/** Whoever has not seen yet what there is leaves it to others to lead: it would have to guess what happened before its start. */
function afterLists(
  { watches }: Pick<ClusterView, 'watches'>,
  clock: Pick<Clock, 'sleep'>,
  part: Part,
): Part {
  return {
    name: part.name,
    run: async (signal) => {
      const enough = new AbortController();
      const waiting = AbortSignal.any([signal, enough.signal]);
      const { workloads, ...others } = watches.collector;
      const lists = [...Object.values(others), ...workloads].map((each) => each.ready(waiting));
      await Promise.race([Promise.allSettled(lists), clock.sleep(LISTS_MS, waiting)]).catch(
        () => undefined,
      );
      enough.abort();
      await Promise.allSettled(lists);
      await part.run(signal);
    },
  };
}

/** Who answers what, by the rows of the leases. */
function replicasView(
  role: Pick<Role, 'leads'>,
  replica: Pick<Replica, 'leases' | 'meterAddress'>,
): ReplicasView {
  const { leases } = replica;
  return {
    meter: () => {
      if (role.leads()) return 'here';
      const address = replica.meterAddress();
      return address === undefined ? 'nowhere' : { address };
    },
    feeder: (destination) => {
      const name = feederLease(destination);
      const address = leases.held().has(name) ? undefined : leases.addressOf(name);
      return address === undefined ? 'here' : { address };
    },
    others: () => leases.others(),
  };
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
