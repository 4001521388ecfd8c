import type { PriceBook } from '../model/price-book.ts';
import { deepFreeze, sameValue } from './immutable.ts';
import type {
  DestinationSettings,
  PolicySettings,
  PrometheusSettings,
  Settings,
  SettingsStore,
  TenantOverrideSettings,
} from './settings.ts';

type Listener = (next: Settings, previous: Settings) => void;

/**
 * Lays what custom resources say over the environment. Callers set only what they have
 * validated, so the value in force is always a good one; what they set stays until they set it
 * again or take it back. Listeners are told of every swap in order, and must not throw.
 */
export function createSettingsStore(environment: Settings): SettingsStore {
  const destinations = new Map<string, DestinationSettings>();
  const overrides = new Map<string, TenantOverrideSettings>();
  const books = new Map<string, PriceBook>();
  const listeners = new Set<Listener>();
  const unreported: (readonly [next: Settings, previous: Settings])[] = [];
  let policy: PolicySettings | undefined;
  let settings = deepFreeze(environment);
  let reporting = false;

  /** A listener may itself change the settings: its change is told after this one, to everybody. */
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
      // Wrapped, so that a function that subscribes twice is told twice and can leave once.
      const entry: Listener = (next, previous) => listener(next, previous);
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
  return {
    ...environment,
    identity: { ...environment.identity, ...policy?.identity },
    discovery: { ...environment.discovery, ...policy?.discovery },
    metering: { ...environment.metering, ...policy?.metering },
    tenantApi: { ...environment.tenantApi, ...policy?.tenantApi },
    prometheus: layerPrometheus(environment.prometheus, policy?.prometheus),
    ledger: { ...environment.ledger, ...policy?.ledger },
    ingest: { ...environment.ingest, ...policy?.ingest },
    log: { ...environment.log, ...policy?.log },
    portal: policy?.portal ?? environment.portal,
    enforcement: {
      ...enforcement,
      ...policy?.enforcement,
      webhookSecrets: Object.fromEntries(webhookSecrets),
    },
    billing: { ...environment.billing, destinations: [...stored, ...byName(destinations)] },
  };
}

/** The next settings, in which every part that says what it said before is the same object as before. */
function withSameParts<T extends object>(next: T, previous: T): T {
  const parts = { ...next };
  for (const name of Object.keys(next) as (keyof T)[]) {
    if (sameValue(next[name], previous[name])) parts[name] = previous[name];
  }
  return parts;
}

/** A server of the policy stands in place of the one of the environment with all its credentials. */
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
