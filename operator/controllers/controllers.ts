import type { Settings, SettingsStore } from '../config/settings.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { createEventRecorder } from '../kubernetes/events.ts';
import { createReflector } from '../kubernetes/reflector.ts';
import type { ReflectorMetrics } from '../kubernetes/reflector-metrics.ts';
import type { ApiResource, SourceHandler } from '../kubernetes/source.ts';
import { createStatusPublisher } from '../kubernetes/status-publisher.ts';
import type { WorkQueueMetrics } from '../kubernetes/work-queue-metrics.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { billingDestinations, type CursorRetirement } from './billing-destination.ts';
import { type Controller, createController } from './controller.ts';
import { type CustomObject, customObject } from './custom-object.ts';
import { ensureDefaultPolicy } from './default-policy.ts';
import { createFinalizers } from './finalizers.ts';
import { meteringPolicies } from './metering-policy.ts';
import { createSecretReader } from './secret-reader.ts';
import { tenantOverrides } from './tenant-override.ts';
import type { DeliveryView, LedgerView, TenantsView, WindowsView } from './views.ts';

export interface ControllersOptions {
  readonly connection: Connection;
  /** The operator's own namespace: the only one whose Secrets are read. */
  readonly namespace: string;
  /** Which process reports: the pod's name. */
  readonly instance: string;
  readonly settings: SettingsStore;
  /** The settings without any custom resource. */
  readonly environment: Settings;
  readonly delivery: DeliveryView;
  readonly tenants: TenantsView;
  readonly windows: WindowsView;
  readonly ledger: LedgerView;
  readonly cursors: CursorRetirement;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly queueMetrics?: WorkQueueMetrics;
  readonly reflectorMetrics?: ReflectorMetrics;
  readonly timings?: ControllerTimings;
}

/** Milliseconds. */
export interface ControllerTimings {
  /** Between looks at what a status should say. */
  readonly report?: number;
  /** Between two writes of one status when only numbers moved. */
  readonly statusInterval?: number;
  /** Between looks at the Secrets that a destination names. */
  readonly secrets?: number;
}

/** The controllers of the three custom resources: specs go into the settings, the engine's state into status. */
export function createControllers(options: ControllersOptions): Controller {
  const { connection, settings, clock, logger, timings = {} } = options;
  const metrics = options.queueMetrics === undefined ? {} : { metrics: options.queueMetrics };
  const status = createStatusPublisher({
    connection,
    clock,
    logger,
    ...metrics,
    ...(timings.statusInterval === undefined ? {} : { intervalMs: timings.statusInterval }),
  });
  const events = createEventRecorder({ connection, clock, logger, instance: options.instance });

  const watch = <Spec>(resource: ApiResource, handler: SourceHandler<CustomObject<Spec>>) =>
    createReflector({
      connection,
      resource,
      project: customObject<Spec>(),
      handlers: [handler],
      clock,
      random: options.random,
      logger,
      ...(options.reflectorMetrics === undefined ? {} : { metrics: options.reflectorMetrics }),
    });

  const shared = {
    watch,
    status,
    events,
    finalizers: createFinalizers(connection),
    clock,
    logger,
    ...(options.queueMetrics === undefined ? {} : { queueMetrics: options.queueMetrics }),
    ...(timings.report === undefined ? {} : { reportIntervalMs: timings.report }),
  };
  const { delivery, tenants, windows, ledger, environment, cursors } = options;
  const secrets = createSecretReader({ connection, namespace: options.namespace });
  const controllers: readonly Controller[] = [
    createController(
      billingDestinations({
        settings,
        secrets,
        delivery,
        cursors,
        ...(timings.secrets === undefined ? {} : { secretIntervalMs: timings.secrets }),
      }),
      shared,
    ),
    createController(tenantOverrides({ settings, tenants }), shared),
    createController(
      meteringPolicies({ settings, environment, clock, delivery, tenants, windows, ledger }),
      shared,
    ),
  ];

  return {
    run: async (signal) => {
      await Promise.all([
        ensureDefaultPolicy({ connection, clock, logger }, signal),
        status.run(signal),
        ...controllers.map((controller) => controller.run(signal)),
      ]);
      await events.settled();
    },
    ready: async (signal) => {
      await Promise.all(controllers.map((controller) => controller.ready(signal)));
    },
  };
}
