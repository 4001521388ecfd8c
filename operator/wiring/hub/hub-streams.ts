import { translatePriceBook } from '../../controllers/price-book-settings.ts';
import { keptSpecs } from '../../controllers/kept-price-books.ts';
import { mergeTenants } from '../../fleet/merge-tenants.ts';
import type { FleetStreamView } from '../../http/views.ts';
import type { FleetDatabase, StreamName } from '../../ledger/fleet.ts';
import { errorText } from '../../model/error-text.ts';
import type { Tenant } from '../../model/tenant.ts';
import { ReadWriteLock } from '../../usage/read-write-lock.ts';
import type { SummingTurns } from '../../usage/sum-keeper.ts';
import type { HubContext } from './hub-context.ts';
import { openStreamUnit, type StreamUnit } from './stream-unit.ts';
import { fleetStreamView } from './stream-views.ts';

/** The streams of all databases of a hub. They come as meters register them, and each works for itself. */
export interface HubStreams {
  /** In the order of the databases, and in each as they were registered. */
  units(): readonly StreamUnit[];
  /** Those that cannot be read included. */
  views(): readonly FleetStreamView[];
  /** A tenant as all streams together have it. */
  merged(tenant: string): Tenant | undefined;
  tenants(): readonly Tenant[];
  /** Why a database, or a stream of it, is not read; empty is healthy. */
  problems(): readonly string[];
  /** Every database has been asked, and each of its streams that can be read is. */
  ready(): boolean;
  /** Price books of all streams have been read. */
  pricesKnown(): boolean;
  /** Works until the signal is aborted, and closes every stream. Never rejects. */
  run(signal: AbortSignal): Promise<void>;
}

const LOOK_MS = 5_000;

/** `context` may ask for what it returns: it is made first. */
export function createHubStreams(
  databases: readonly FleetDatabase[],
  context: () => HubContext,
): HubStreams {
  return new Streams(databases, context);
}

interface Running {
  readonly unit: StreamUnit;
  readonly database: FleetDatabase;
  readonly ended: Promise<void>;
}

class Streams implements HubStreams {
  readonly #databases: readonly FleetDatabase[];
  readonly #context: () => HubContext;
  readonly #turns = new Map<FleetDatabase, SummingTurns>();
  #running: readonly Running[] = [];
  /** By database, and by database and stream. */
  readonly #problems = new Map<string, { readonly text: string; readonly stream?: StreamName }>();
  #merged: ReadonlyMap<string, Tenant> | undefined;
  #asked = false;
  #pricesKnown = false;

  constructor(databases: readonly FleetDatabase[], context: () => HubContext) {
    this.#databases = databases;
    this.#context = context;
  }

  units(): readonly StreamUnit[] {
    return this.#running.map(({ unit }) => unit);
  }

  views(): readonly FleetStreamView[] {
    const refused = [...this.#problems.values()].flatMap(({ text, stream }) =>
      stream === undefined
        ? []
        : [
            {
              cluster: stream.source,
              region: stream.region,
              problem: text,
              events: 0,
              lagEvents: 0,
              lagSeconds: 0,
            },
          ],
    );
    return [...this.units().map(fleetStreamView), ...refused];
  }

  merged(tenant: string): Tenant | undefined {
    return this.#all().get(tenant);
  }

  tenants(): readonly Tenant[] {
    return [...this.#all().values()];
  }

  problems(): readonly string[] {
    return [...this.#problems.values()].map(({ text }) => text);
  }

  ready(): boolean {
    return this.#asked;
  }

  pricesKnown(): boolean {
    return this.#pricesKnown;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#context();
    while (!signal.aborted) {
      await this.#look(signal);
      if (!signal.aborted) await this.#readPrices();
      this.#asked = true;
      await clock.sleep(LOOK_MS, signal).catch(() => undefined);
    }
    await Promise.all(this.#running.map(({ ended }) => ended));
  }

  #all(): ReadonlyMap<string, Tenant> {
    this.#merged ??= mergeTenants(this.units().map(({ watch }) => watch.tenants()));
    return this.#merged;
  }

  async #look(signal: AbortSignal): Promise<void> {
    // At the same time: one that does not answer takes ten seconds to say so.
    const found = await Promise.all(
      this.#databases.map(async (database) => [database, await this.#listOf(database)] as const),
    );
    for (const [database, names] of found) {
      for (const name of names) {
        if (signal.aborted) return;
        const isRunning = this.#running.some(
          (one) => one.database === database && one.unit.name.source === name.source,
        );
        if (!isRunning) await this.#open(database, name, signal);
      }
    }
  }

  async #listOf(database: FleetDatabase): Promise<readonly StreamName[]> {
    try {
      const names = await database.streams();
      this.#settle(database.name, undefined);
      return names;
    } catch (error) {
      this.#settle(database.name, `database: ${errorText(error)}`);
      return [];
    }
  }

  async #open(database: FleetDatabase, name: StreamName, signal: AbortSignal): Promise<void> {
    const { logger } = this.#context();
    const key = `${database.name}/${name.source}`;
    const clash = this.#clashOf(database, name);
    if (clash !== undefined) {
      this.#settle(key, clash, name);
      return;
    }
    try {
      const joined = await database.join(name);
      if (joined.kind === 'failed' || joined.replica === undefined) {
        const why = joined.kind === 'failed' ? joined.message : 'it cannot be joined';
        this.#settle(key, `stream "${name.source}": ${why}`, name);
        return;
      }
      const { ledger, replica } = joined;
      const turns = this.#turns.get(database) ?? new ReadWriteLock();
      this.#turns.set(database, turns);
      const unit = await openStreamUnit(this.#context(), name, { ledger, replica, turns });
      unit.watch.subscribe(() => {
        this.#merged = undefined;
      });
      const ended = unit
        .run(signal)
        .catch((error: unknown) => logger.error(`[fleet] ${name.source}: ${errorText(error)}`))
        .then(() => this.#forget(unit));
      this.#running = [...this.#running, { unit, database, ended }].toSorted(
        (a, b) => this.#databases.indexOf(a.database) - this.#databases.indexOf(b.database),
      );
      this.#merged = undefined;
      this.#settle(key, undefined);
      logger.info(`[fleet] stream ${name.source} (region ${name.region}) of ${database.name}`);
    } catch (error) {
      this.#settle(key, `stream "${name.source}": ${errorText(error)}`, name);
    }
  }

  /** Ids contain the region, and requests name a stream: neither may be there twice over all databases. */
  #clashOf(database: FleetDatabase, { source, region }: StreamName): string | undefined {
    const other = this.#running.find(
      ({ unit }) => unit.name.source === source || unit.name.region === region,
    );
    if (other === undefined) return undefined;
    const taken = other.unit.name;
    const what =
      taken.region === region ? `REGION "${region}" of "${source}"` : `CLUSTER_NAME "${source}"`;
    const where = `"${taken.source}" in ${other.database.name} has the same`;
    return `${what} in ${database.name} is not unique: ${where}; give them different ones`;
  }

  #forget(unit: StreamUnit): void {
    this.#running = this.#running.filter((one) => one.unit !== unit);
    this.#merged = undefined;
  }

  /** Notes or takes back a problem, and says what is new. */
  #settle(key: string, text: string | undefined, stream?: StreamName): void {
    const before = this.#problems.get(key)?.text;
    if (text === undefined) this.#problems.delete(key);
    else this.#problems.set(key, { text, ...(stream !== undefined && { stream }) });
    if (text !== undefined && text !== before) this.#context().logger.warn(`[fleet] ${text}`);
  }

  /** The books of all streams by their names, which count as the first stream has them. */
  async #readPrices(): Promise<void> {
    const { settings, logger } = this.#context();
    const wanted = new Map<string, Parameters<typeof translatePriceBook>[1]>();
    try {
      for (const { ledger } of this.units()) {
        for (const [name, spec] of await keptSpecs(ledger)) {
          if (!wanted.has(name)) wanted.set(name, spec);
        }
      }
    } catch (error) {
      logger.warn(`[fleet] price books: ${errorText(error)}`);
      return;
    }
    for (const { name } of settings.current().pricing.books) {
      if (!wanted.has(name)) settings.setPriceBook(name, undefined);
    }
    for (const [name, spec] of wanted) {
      const translated = translatePriceBook(name, spec);
      if (translated.kind === 'settings') settings.setPriceBook(name, translated.settings);
    }
    this.#pricesKnown = true;
  }
}
