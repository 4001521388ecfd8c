import { Registry } from 'prom-client';
import { loadEnvironment } from '../../../settings/load-environment.ts';
import type { SettingsStore, TenantOverrideSettings } from '../../../settings/settings.ts';
import { createSettingsStore } from '../../../settings/settings-store.ts';
import { Discovery } from '../../../discovery/discovery.ts';
import { createDiscoverySources, runSources } from '../../../discovery/testing/create-sources.ts';
import type { Connection } from '../../../kubernetes/connection.ts';
import { EventRecorder } from '../../../kubernetes/events.ts';
import { createCapturingLogger } from '../../../kubernetes/testing/capturing-logger.ts';
import type { Ledger } from '../../../ledger/ledger.ts';
import { systemClock } from '../../../telemetry/system-clock.ts';
import type { DestinationType } from '../../../model/destination-type.ts';
import { Enforcement } from '../enforcement.ts';
import type { InboxOutcome } from '../inbox.ts';
import { asRequest, type SignedMessage, WEBHOOK_SECRETS } from './alerts.ts';
import { CUSTOMER_ID_KEYS, DESTINATIONS } from '../../../destinations/registry.ts';

/** Discovery and enforcement as they run in the operator, one life of them. */
export interface RunningEnforcement extends AsyncDisposable {
  readonly enforcement: Enforcement;
  readonly discovery: Discovery;
  readonly settings: SettingsStore;
  readonly registry: Registry;
  readonly lines: readonly string[];
  post(provider: DestinationType, message: SignedMessage): Promise<InboxOutcome>;
}

export async function runEnforcement(options: {
  readonly connection: Connection;
  readonly ledger: Ledger;
  readonly environment?: Readonly<Record<string, string>>;
  readonly overrides?: readonly TenantOverrideSettings[];
}): Promise<RunningEnforcement> {
  const { connection, ledger } = options;
  const logger = createCapturingLogger();
  const registry = new Registry();
  const common = { clock: systemClock, random: Math.random, logger };
  const settings = createSettingsStore(settingsOf(options.environment));
  for (const override of options.overrides ?? []) settings.setOverride(override.name, override);
  const stop = new AbortController();
  const sources = createDiscoverySources({
    ...common,
    connection,
    labelPrefix: settings.current().identity.labelPrefix,
    watchNamespaces: [],
    timings: { absentProbe: 200 },
    onChange: (departed) => discovery.request(departed),
  });
  const discovery = new Discovery({
    ...common,
    sources,
    settings,
    customerIdKeys: CUSTOMER_ID_KEYS,
    records: ledger,
  });
  const enforcement = new Enforcement({
    ...common,
    ledger,
    connection,
    settings,
    discovery,
    sources,
    queryCustomer: async () => ({ kind: 'unknown' }),
    queryCurrentAlerts: async () => [],
    report: async () => ({ kind: 'written' }),
    queryKeys: async () => ({ kind: 'failed', reason: 'nobody to query' }),
    events: new EventRecorder({ ...common, connection, instance: 'test' }),
    overridesKnown: async () => undefined,
    registry,
  });
  await enforcement.load();
  const running = Promise.all([
    runSources(sources, stop.signal),
    discovery.run(stop.signal),
    enforcement.run(stop.signal),
  ]);
  return {
    enforcement,
    discovery,
    settings,
    registry,
    lines: logger.lines,
    post: (provider, message) => enforcement.receive(provider, asRequest(message), stop.signal),
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await running;
    },
  };
}

function settingsOf(environment: Readonly<Record<string, string>> = {}) {
  const loaded = loadEnvironment(
    {
      ...WEBHOOK_SECRETS,
      ENFORCEMENT_MODE: 'enforce',
      RECONCILE_INTERVAL: '1s',
      ...environment,
    },
    DESTINATIONS,
  );
  if (loaded.kind !== 'loaded') throw new Error(JSON.stringify(loaded.problems));
  return loaded.settings;
}
