import type { Registry } from 'prom-client';
import type { Settings, SettingsStore } from '../settings/settings.ts';
import type { ControllerSetOptions } from '../controllers/controller-set.ts';
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

/** Dependencies of every process that leads: the operator of a cluster, or a hub. */
export interface LeaderContext {
  readonly version: string;
  /** Settings of the environment alone, before any custom resource applies. */
  readonly environment: Settings;
  readonly settings: SettingsStore;
  /** The pod's name; identifies this process. */
  readonly instance: string;
  /** True while the lease is renewed, so that this process may change anything outside. */
  readonly mayAct: () => boolean;
  /** Server that receives HTTP requests, also while the process stands by. */
  readonly front: HttpFront;
  /** Label on the pod of this process, by which a Service selects the leader. */
  readonly label?: LeaderLabel;
  /** Shorter intervals of the controllers, for tests. */
  readonly controllerTimings?: ControllerSetOptions['timings'];
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly stopping: AbortSignal;
}

/** Dependencies for feeding and showing a stream. */
export interface StreamContext extends LeaderContext {
  readonly outbound: Outbound;
  readonly customResources: CustomResources;
  /** Set where traces are exported to a collector. */
  readonly tracer?: Tracer;
}

/** Dependencies of the operator of a cluster. */
export interface OperatorOptions extends LeaderContext {
  /** Metrics of PROMETHEUS_METRICS_FILE at the start. */
  readonly configuredMetrics: readonly ConfiguredMetric[];
  /** Namespaces to watch; empty means all. */
  readonly watchNamespaces: readonly string[];
  /** Called when the settings name other namespaces: the operator must then be built again. */
  readonly onOtherNamespaces: (namespaces: readonly string[]) => void;
  /** Connection to the host cluster. It writes nothing while {@link mayAct} is false. */
  readonly connection: Connection;
  /** The operator's own namespace. */
  readonly namespace: string;
  readonly ledger: Ledger;
  /** Sums of the ledger's events. */
  readonly rollups: Rollups;
  /** True for a ledger in a database, which other processes read too. */
  readonly isDatabase: boolean;
}

/** Dependencies that every builder of an operator receives. */
export interface BuildContext extends OperatorOptions, StreamContext {
  readonly collectorMetrics: CollectorMetrics;
  readonly reflectorMetrics: ReflectorMetrics;
  readonly queueMetrics: WorkQueueMetrics;
}
