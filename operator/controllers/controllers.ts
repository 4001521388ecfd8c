import type { BillingDestinationSpec } from '../config/custom-resources.generated.ts';
import type { Settings, SettingsStore } from '../config/settings.ts';
import type { ExistingDestination } from '../delivery/destination-status.ts';
import { untilAborted } from '../kubernetes/abort.ts';
import type { Connection } from '../kubernetes/connection.ts';
import {
  createEventRecorder,
  type EventRecorder,
  type KubernetesEvent,
} from '../kubernetes/events.ts';
import type { ReflectorMetrics, WorkQueueMetrics } from '../kubernetes/metrics.ts';
import { createOperatorHost, type OperatorPart } from '../kubernetes/operator-base.ts';
import { createStatusPublisher, type StatusPublisher } from '../kubernetes/status-publisher.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { billingDestinations, type CursorRetirement } from './billing-destination.ts';
import { readyBySpec } from './conditions.ts';
import { createController, type KnownObject } from './controller.ts';
import { ensureDefaultPolicy, meteringPolicies, POLICY_NAME } from './metering-policy.ts';
import type { PriceRecords } from './kept-price-books.ts';
import { priceBooks } from './price-book.ts';
import { createSecretReader } from './secret-reader.ts';
import { tenantOverrides } from './tenant-override.ts';
import type {
  BudgetsView,
  DeliveryView,
  EnforcementView,
  HeldView,
  LedgerView,
  TenantsView,
  WindowsView,
} from './views.ts';

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
  /** Where prices that are in force outlive a restart. */
  readonly records: PriceRecords;
  /** Whether a metric of this code is in the catalogue. */
  readonly knowsMetric: (code: string) => boolean;
  readonly enforcement: EnforcementView;
  readonly held: HeldView;
  readonly budgets: BudgetsView;
  readonly cursors: CursorRetirement;
  /**
   * False while another process says what becomes of the objects: then specs are put in force here, and nothing is written. By default
   * true.
   */
  readonly mayWrite?: () => boolean;
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

/** The controllers at work. */
export interface Controllers {
  /** Works until the signal is aborted; rejects when a controller cannot go on. */
  run(signal: AbortSignal): Promise<void>;
  /**
   * Resolves when every custom resource that was there has been looked at, but for PriceBooks: nothing that is metered or
   * delivered depends on prices, so nobody waits for them where they cannot be read.
   */
  ready(signal: AbortSignal): Promise<void>;
  /** Whether every PriceBook that was there has been looked at. */
  pricesKnown(): boolean;
  /** Looks at every object once more: it may write from now on. */
  lookAgain(): void;
  /**
   * The BillingDestinations that exist, also those whose settings cannot be used and are therefore not in
   * force: their cursors must be kept, and people must see them.
   */
  destinations(): readonly ExistingDestination[];
  /** The TenantOverride of a name, or without one the MeteringPolicy, for events about it; undefined where it is gone. */
  giverOf(override: string | undefined): KubernetesEvent['regarding'] | undefined;
}

/** The controllers of the custom resources: specs go into the settings, the engine's state into status. */
export function createControllers(options: ControllersOptions): Controllers {
  const { connection, clock, logger, queueMetrics, mayWrite = () => true, timings = {} } = options;
  const publisher = createStatusPublisher({
    connection,
    clock,
    logger,
    ...omitUndefined({ metrics: queueMetrics, intervalMs: timings.statusInterval }),
  });
  const recorder = createEventRecorder(options);
  const status: StatusPublisher = {
    ...publisher,
    publish: (...said) => {
      if (mayWrite()) publisher.publish(...said);
    },
  };
  const events: EventRecorder = {
    ...recorder,
    record: (event) => {
      if (mayWrite()) recorder.record(event);
    },
  };
  const records = recordsWhile(mayWrite, options.records);
  const host = createOperatorHost({
    connection,
    clock,
    random: options.random,
    logger,
    ...omitUndefined({ metrics: options.reflectorMetrics }),
  });
  const shared = {
    host,
    status,
    events,
    clock,
    logger,
    mayWrite,
    ...omitUndefined({ queueMetrics, reportIntervalMs: timings.report }),
  };
  const secrets = createSecretReader(options);
  const withSecrets = {
    ...options,
    secrets,
    ...omitUndefined({ secretIntervalMs: timings.secrets }),
  };
  const destinations = createController(billingDestinations(withSecrets), shared);
  const overrides = createController(tenantOverrides(options), shared);
  const policies = createController(meteringPolicies(withSecrets), shared);
  const books = createController(priceBooks({ ...options, records }), shared);
  const awaited = [destinations, overrides, policies];
  let pricesKnown = false;

  return {
    run: async (signal) => {
      const ended = new AbortController();
      const parts: readonly OperatorPart[] = [
        status,
        { run: (stopping) => ensureDefaultPolicy({ connection, clock, logger }, stopping) },
        ...awaited,
        books,
      ];
      for (const part of parts) host.add(endingWith(part, ended));
      // Rejects only when it is stopped before everything is ready, which closing tells better.
      host.start().catch(() => undefined);
      void books
        .ready(signal)
        .then(() => {
          pricesKnown = true;
        })
        .catch(() => undefined);
      await untilAborted(signal, ended.signal);
      await host.close();
      await events.settled();
    },
    ready: async (signal) => {
      await Promise.all(awaited.map((controller) => controller.ready(signal)));
    },
    pricesKnown: () => pricesKnown,
    lookAgain: () => {
      for (const controller of [...awaited, books]) controller.lookAgain();
    },
    destinations: () => destinations.objects().map(existingDestination),
    giverOf: (override) => {
      const apiVersion = 'meterfeed.io/v1alpha1';
      const kind = override === undefined ? 'MeteringPolicy' : 'TenantOverride';
      const objects = override === undefined ? policies.objects() : overrides.objects();
      const found = objects.find(({ name }) => name === (override ?? POLICY_NAME));
      return found && { apiVersion, kind, name: found.name, uid: found.uid };
    },
  };
}

/** Whoever may not write takes everything for written: it is looked at once more when it may. */
function recordsWhile(mayWrite: () => boolean, records: PriceRecords): PriceRecords {
  return {
    record: (key) => records.record(key),
    writeRecords: async (changes) =>
      mayWrite() ? records.writeRecords(changes) : { kind: 'written' },
  };
}

/** As delivery and the HTTP API show it; the reason and message are those of the condition `Ready`. */
function existingDestination({
  name,
  spec,
  specStatus,
}: KnownObject<BillingDestinationSpec>): ExistingDestination {
  const claim = specStatus && readyBySpec(specStatus);
  const problem = claim && { reason: claim.reason, message: claim.message };
  return { name, type: spec.type, suspend: spec.suspend ?? false, ...omitUndefined({ problem }) };
}

/** The part, with its failure made known at once. */
function endingWith(part: OperatorPart, ended: AbortController): OperatorPart {
  return {
    ready: async (signal) => part.ready?.(signal),
    run: async (signal) => {
      try {
        await part.run(signal);
      } catch (error) {
        ended.abort();
        throw error;
      }
    },
  };
}
