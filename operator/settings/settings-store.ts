import type { PriceBook } from '../model/price-book.ts';
import { sameValue } from '../model/same-value.ts';
import { deepFreeze } from './immutable.ts';
import type {
  DestinationSettings,
  PolicySettings,
  PrometheusSettings,
  Settings,
  SettingsStore,
  TenantOverrideSettings,
} from './settings.ts';

type SettingsListener = (next: Settings, previous: Settings) => void;

/**
 * Lays custom resources over the environment. Callers pass only validated values, so the settings
 * in force are always valid. A value stays until the caller replaces or removes it. Listeners
 * receive every change in order and must not throw.
 */
export function createSettingsStore(environment: Settings): SettingsStore {
  const destinations = new Map<string, DestinationSettings>();
  const overrides = new Map<string, TenantOverrideSettings>();
  const books = new Map<string, PriceBook>();
  const listeners = new Set<SettingsListener>();
  const unreported: (readonly [next: Settings, previous: Settings])[] = [];
  let policy: PolicySettings | undefined;
  let settings = deepFreeze(environment);
  let reporting = false;

  /**
   * A listener may change the settings itself. That change is reported after the current one, to
   * every listener.
   */
  function report(): void {
    if (reporting) return;
    reporting = true;
    try {
      for (let swap = unreported.shift(); swap !== undefined; swap = unreported.shift()) {
        for (const listener of listeners) listener(...swap);
      }
    } finally {
      reporting = false;
    }
  }

  function swap(): void {
    const next = {
      ...layer(environment, policy, destinations),
      overrides: byName(overrides),
      pricing: {
        books: byName(books),
        defaultBudget: policy?.defaultBudget,
      },
    };
    if (sameValue(next, settings)) return;
    const previous = settings;
    settings = deepFreeze(withSameParts(next, previous));
    unreported.push([settings, previous]);
    report();
  }

  return {
    current: () => settings,
    subscribe(listener) {
      // A new function, so that a listener that subscribes twice is called twice and can
      // unsubscribe once.
      const entry: SettingsListener = (next, previous) => listener(next, previous);
      listeners.add(entry);
      return () => void listeners.delete(entry);
    },
    setPolicy(next) {
      policy = next;
      swap();
    },
    setDestination(name, destination) {
      setOrDelete(destinations, name, destination);
      swap();
    },
    setOverride(name, override) {
      setOrDelete(overrides, name, override);
      swap();
    },
    setPriceBook(name, book) {
      setOrDelete(books, name, book);
      swap();
    },
  };
}

function layer(
  environment: Settings,
  policy: PolicySettings | undefined,
  destinations: ReadonlyMap<string, DestinationSettings>,
): Settings {
  const stored = environment.billing.destinations.filter(({ name }) => !destinations.has(name));
  const { enforcement } = environment;
  const added = Map.groupBy(byName(destinations), ({ type }) => type);
  const webhookSecrets = Object.entries(enforcement.webhookSecrets).map(([type, secrets]) => [
    type,
    [...secrets, ...(added.get(type) ?? []).flatMap((one) => one.webhookSecrets ?? [])],
  ]);
  const parts: Pick<Settings, keyof Settings & keyof PolicySettings> = {
    identity: { ...environment.identity, ...policy?.identity },
    discovery: { ...environment.discovery, ...policy?.discovery },
    metering: { ...environment.metering, ...policy?.metering },
    tenantApi: { ...environment.tenantApi, ...policy?.tenantApi },
    prometheus: layerPrometheus(environment.prometheus, policy?.prometheus),
    ledger: { ...environment.ledger, ...policy?.ledger },
    anchors: { ...environment.anchors, ...policy?.anchors },
    ingest: { ...environment.ingest, ...policy?.ingest },
    http: { ...environment.http, ...policy?.http },
    log: { ...environment.log, ...policy?.log },
    portal: policy?.portal ?? environment.portal,
    focus: policy?.focus ?? environment.focus,
    enforcement: {
      ...enforcement,
      ...policy?.enforcement,
      webhookSecrets: Object.fromEntries(webhookSecrets),
    },
  };
  return {
    ...environment,
    ...parts,
    billing: { ...environment.billing, destinations: [...stored, ...byName(destinations)] },
  };
}

/** The next settings, in which each unchanged part is the same object as before. */
function withSameParts<T extends object>(next: T, previous: T): T {
  const parts = { ...next };
  for (const name of Object.keys(next) as (keyof T)[]) {
    if (sameValue(next[name], previous[name])) parts[name] = previous[name];
  }
  return parts;
}

/** A server of the policy replaces that of the environment with all of its credentials. */
function layerPrometheus(
  environment: PrometheusSettings,
  policy: PolicySettings['prometheus'],
): PrometheusSettings {
  const preset = policy?.preset ?? environment.preset;
  if (policy?.server === undefined) return { ...environment, preset };
  return { ...policy.server, metricsFile: environment.metricsFile, preset };
}

/** Sorted, so that the order in which resources arrived makes no difference. */
function byName<T>(map: ReadonlyMap<string, T>): T[] {
  return [...map].toSorted(([a], [b]) => (a < b ? -1 : Number(a > b))).map(([, value]) => value);
}

function setOrDelete<T>(map: Map<string, T>, name: string, value: T | undefined): void {
  if (value === undefined) map.delete(name);
  else map.set(name, value);
}
