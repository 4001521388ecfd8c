import { translatePriceBook } from '../../controllers/price-book-settings.ts';
import { storedSpecs } from '../../controllers/stored-price-books.ts';
import { mergeTenants } from '../fleet/one-customer.ts';
import type { FleetStreamView } from '../../http/views.ts';
import type { FleetDatabase, StreamName } from '../../ledger/fleet.ts';
import type { HubLease } from '../../ledger/postgres/hub-lease.ts';
import { errorText } from '../../model/error-text.ts';
import type { Tenant } from '../../model/tenant.ts';
import { fleetStreamView } from '../views.ts';
import type { FleetRegistry } from './fleet-registry.ts';
import { type HubContext, HubStream } from './hub-stream.ts';

/** A database of streams, and the lease row for leading there. */
export interface HubDatabase {
  readonly database: FleetDatabase;
  readonly lease: HubLease;
}

/** The first database decides which process leads and answers. */
export type HubDatabases = readonly [HubDatabase, ...HubDatabase[]];

const POLL_MS = 5_000;
/** Pause while the first reads of databases are under way. */
const SOON_MS = 100;

/**
 * The streams of all databases of a hub. Each stream is opened when its meter has registered it,
 * and works independently.
 */
export class HubStreams {
  readonly #databases: HubDatabases;
  readonly #context: HubContext;
  readonly #registry: FleetRegistry;
  /** Databases that have answered which streams they have; the first one with a list. */
  readonly #requested = new Set<HubDatabase>();
  #running: readonly {
    readonly stream: HubStream;
    readonly place: HubDatabase;
    readonly ended: Promise<void>;
  }[] = [];
  /** By database name, or by `database/stream`. */
  readonly #problems = new Map<string, { readonly text: string; readonly stream?: StreamName }>();
  #merged: ReadonlyMap<string, Tenant> | undefined;
  #pricesKnown = false;

  constructor(databases: HubDatabases, context: HubContext, registry: FleetRegistry) {
    this.#databases = databases;
    this.#context = context;
    this.#registry = registry;
  }

  /** Streams in the order of the databases, then of their registration. */
  readonly list = (): readonly HubStream[] => this.#running.map(({ stream }) => stream);

  /** Views of all streams, including unreadable ones. */
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
    return [...this.list().map(fleetStreamView), ...refused];
  }

  readonly merged = (tenant: string): Tenant | undefined => this.#all().get(tenant);

  /** All tenants, merged over all streams. */
  readonly tenants = (): readonly Tenant[] => [...this.#all().values()];

  /** Why a database or a stream is not read; empty if all are. */
  problems(): readonly string[] {
    const led = this.#databases.flatMap((place) => this.#notLed(place) ?? []);
    return [...led, ...[...this.#problems.values()].map(({ text }) => text)];
  }

  /**
   * True when the first database has listed its streams, and each other one has answered or is not
   * led by this process.
   */
  ready(): boolean {
    return this.#areRequested(this.#databases);
  }

  /** Resolves when {@link ready} is true or the signal is aborted. */
  readonly allQueried = (signal: AbortSignal): Promise<void> =>
    this.#untilRequested(this.#databases, signal);

  /** True when the price books of all streams have been read. */
  pricesKnown(): boolean {
    return this.#pricesKnown;
  }

  /**
   * Works until the signal is aborted, then closes every stream. `epoch` is that of the first
   * database. In each other database this process works only while it leads there too.
   */
  async run(epoch: number, signal: AbortSignal): Promise<void> {
    const [first, ...others] = this.#databases;
    await Promise.all([
      this.#serve(first, epoch, signal),
      ...others.map((place) =>
        place.lease.run(signal, (own, leading) => this.#serve(place, own, leading)),
      ),
      this.#followPrices(signal),
    ]);
  }

  /** Opens a database's streams as they appear, until the signal is aborted; then closes them. */
  async #serve(place: HubDatabase, epoch: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#context;
    // If two streams have one REGION, the stream of the earlier database counts.
    await this.#untilRequested(this.#databases.slice(0, this.#databases.indexOf(place)), signal);
    while (!signal.aborted) {
      const names = await this.#listOf(place.database);
      for (const name of names ?? []) {
        if (signal.aborted) break;
        const isRunning = this.#running.some(
          (one) => one.place === place && one.stream.name.source === name.source,
        );
        if (!isRunning) await this.#open(place, name, { epoch, signal });
      }
      if (names !== undefined || place !== this.#databases[0]) this.#requested.add(place);
      await clock.sleep(POLL_MS, signal).catch(() => undefined);
    }
    const own = this.#running.filter((one) => one.place === place);
    await Promise.all(own.map(({ ended }) => ended));
    this.#requested.delete(place);
  }

  #areRequested(databases: readonly HubDatabase[]): boolean {
    const [first] = this.#databases;
    return databases.every(
      (place) =>
        this.#requested.has(place) || (place !== first && this.#notLed(place) !== undefined),
    );
  }

  async #untilRequested(databases: readonly HubDatabase[], signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.#areRequested(databases)) {
      await this.#context.clock.sleep(SOON_MS, signal).catch(() => undefined);
    }
  }

  /** Why this process neither reads nor feeds a database now; undefined where it leads. */
  #notLed({ database, lease }: HubDatabase): string | undefined {
    if (lease.isTrusted()) return undefined;
    const { owner, problem } = lease.seen;
    if (problem !== '') return `database: ${database.name}: ${problem}`;
    return owner === ''
      ? undefined
      : `database: ${database.name}: another hub leads there: "${owner}"`;
  }

  async #followPrices(signal: AbortSignal): Promise<void> {
    const { clock } = this.#context;
    await this.allQueried(signal);
    while (!signal.aborted) {
      await this.#readPrices();
      await clock.sleep(POLL_MS, signal).catch(() => undefined);
    }
  }

  #all(): ReadonlyMap<string, Tenant> {
    this.#merged ??= mergeTenants(this.list().map(({ watch }) => watch.tenants()));
    return this.#merged;
  }

  async #listOf(database: FleetDatabase): Promise<readonly StreamName[] | undefined> {
    try {
      const names = await database.streams();
      this.#settle(database.name, undefined);
      return names;
    } catch (error) {
      this.#settle(database.name, `database: ${errorText(error)}`);
      return undefined;
    }
  }

  async #open(
    place: HubDatabase,
    name: StreamName,
    { epoch, signal }: { readonly epoch: number; readonly signal: AbortSignal },
  ): Promise<void> {
    const { logger } = this.#context;
    const { database, lease } = place;
    const key = `${database.name}/${name.source}`;
    const clash = this.#clashOf(database, name);
    if (clash !== undefined) {
      this.#settle(key, clash, name);
      return;
    }
    try {
      const opened = await database.open(name, epoch);
      if (opened.kind === 'failed') {
        this.#settle(key, `stream "${name.source}": ${opened.message}`, name);
        return;
      }
      const { ledger, rollups, adopt } = opened;
      const mayAct = (): boolean => lease.isTrusted();
      const opening = { ledger, rollups, adopt, mayAct };
      const stream = await HubStream.open(this.#context, this, name, opening);
      stream.watch.subscribe(() => {
        this.#merged = undefined;
      });
      const leave = this.#registry.join(name.source, stream.origin.registry);
      const ended = stream
        .run(signal)
        .catch((error: unknown) => logger.error(`[fleet] ${name.source}: ${errorText(error)}`))
        .then(() => {
          leave();
          this.#running = this.#running.filter((one) => one.stream !== stream);
          this.#merged = undefined;
        });
      this.#running = [...this.#running, { stream, place, ended }].toSorted(
        (a, b) => this.#databases.indexOf(a.place) - this.#databases.indexOf(b.place),
      );
      this.#merged = undefined;
      this.#settle(key, undefined);
      logger.info(`[fleet] stream ${name.source} (region ${name.region}) of ${database.name}`);
    } catch (error) {
      this.#settle(key, `stream "${name.source}": ${errorText(error)}`, name);
    }
  }

  /**
   * Returns a clash with a running stream, or undefined. Event ids contain the region and requests
   * name a stream, so both must be unique over all databases.
   */
  #clashOf(database: FleetDatabase, { source, region }: StreamName): string | undefined {
    const other = this.#running.find(
      ({ stream }) => stream.name.source === source || stream.name.region === region,
    );
    if (other === undefined) return undefined;
    const taken = other.stream.name;
    const what =
      taken.region === region ? `REGION "${region}" of "${source}"` : `CLUSTER_NAME "${source}"`;
    const where = `"${taken.source}" in ${other.place.database.name} has the same`;
    return `${what} in ${database.name} is not unique: ${where}; give them different ones`;
  }

  /** Sets or removes a problem, and logs a new one. */
  #settle(key: string, text: string | undefined, stream?: StreamName): void {
    const before = this.#problems.get(key)?.text;
    if (text === undefined) this.#problems.delete(key);
    else this.#problems.set(key, { text, stream });
    if (text !== undefined && text !== before) this.#context.logger.warn(`[fleet] ${text}`);
  }

  /** Reads the price books of all streams. Of one name in two streams the first one counts. */
  async #readPrices(): Promise<void> {
    const { settings, logger } = this.#context;
    const wanted = new Map<string, Parameters<typeof translatePriceBook>[1]>();
    try {
      for (const { ledger } of this.list()) {
        for (const [name, spec] of await storedSpecs(ledger)) {
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
