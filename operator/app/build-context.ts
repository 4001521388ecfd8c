import type { Registry } from 'prom-client';
import type { Settings, SettingsStore } from '../settings/settings.ts';
import type { HttpFront } from '../http/front.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { LeaderLabel } from '../kubernetes/leader-label.ts';
import type { ReflectorMetrics, WorkQueueMetrics } from '../kubernetes/metrics.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Rollups } from '../ledger/rollups.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { ConfiguredMetric } from '../prometheus/configured-metric.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import type { CollectorMetrics } from '../metering/windows/collector-metrics.ts';
import type { CustomResources } from './custom-resources.ts';

/** What every process that leads has before it builds, of an operator and of a hub. */
export interface LeaderContext {
  readonly version: string;
  /** The settings without any custom resource. */
  readonly environment: Settings;
  readonly settings: SettingsStore;
  /** Which process this is: the pod's name. */
  readonly instance: string;
  /** Whether this process may act on anything outside at this moment: its lease is renewed. */
  readonly mayAct: () => boolean;
  /** Where requests come in. */
  readonly front: HttpFront;
  /** On the pod of this process, where a Service selects by it. */
  readonly label?: LeaderLabel | undefined;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly stopping: AbortSignal;
}

/** With what each stream is fed and shown. */
export interface StreamContext extends LeaderContext {
  readonly outbound: Outbound;
  readonly customResources: CustomResources;
  /** Where a collector receives traces. */
  readonly tracer?: Tracer | undefined;
}

/** What the operator of a cluster has before it builds. */
export interface OperatorOptions extends LeaderContext {
  /** What PROMETHEUS_METRICS_FILE held at the start. */
  readonly configuredMetrics: readonly ConfiguredMetric[];
  /** The namespaces that watches are built for; empty means all. */
  readonly watchNamespaces: readonly string[];
  /** Called when the settings name others: the operator has to be built again for them. */
  readonly onOtherNamespaces: (namespaces: readonly string[]) => void;
  /** Writes nothing while {@link mayAct} is false. */
  readonly connection: Connection;
  /** The operator's own. */
  readonly namespace: string;
  readonly ledger: Ledger;
  /** Sums of the ledger. */
  readonly rollups: Rollups;
  /** The ledger is a database, which other processes read as well. */
  readonly isDatabase: boolean;
}

/** What every builder of an operator is given. */
export interface BuildContext extends OperatorOptions, StreamContext {
  readonly collectorMetrics: CollectorMetrics;
  readonly reflectorMetrics: ReflectorMetrics;
  readonly queueMetrics: WorkQueueMetrics;
}
