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

/** A database, and the row by which a process leads there. */
export interface HubDatabase {
  readonly database: FleetDatabase;
  readonly lease: HubLease;
}

/** The first decides who answers. */
export type HubDatabases = readonly [HubDatabase, ...HubDatabase[]];

const POLL_MS = 5_000;
/** While databases are still being asked. */
const SOON_MS = 100;

/** The streams of all databases of a hub. They come as meters register them, and each works for itself. */
export class HubStreams {
  readonly #databases: HubDatabases;
  readonly #context: HubContext;
  readonly #registry: FleetRegistry;
  /** Where streams have been looked for. */
  readonly #requested = new Set<HubDatabase>();
  #running: readonly {
    readonly stream: HubStream;
    readonly place: HubDatabase;
    readonly ended: Promise<void>;
  }[] = [];
  /** By database, and by database and stream. */
  readonly #problems = new Map<string, { readonly text: string; readonly stream?: StreamName }>();
  #merged: ReadonlyMap<string, Tenant> | undefined;
  #pricesKnown = false;

  constructor(databases: HubDatabases, context: HubContext, registry: FleetRegistry) {
    this.#databases = databases;
    this.#context = context;
    this.#registry = registry;
  }

  /** In the order of the databases, and in each as they were registered. */
  readonly list = (): readonly HubStream[] => this.#running.map(({ stream }) => stream);

  /** Those that cannot be read included. */
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

  /** A tenant as all streams together have it. */
  readonly merged = (tenant: string): Tenant | undefined => this.#all().get(tenant);

  /** All tenants, as all streams together have them. */
  readonly tenants = (): readonly Tenant[] => [...this.#all().values()];

  /** Why a database, or a stream of it, is not read; empty is healthy. */
  problems(): readonly string[] {
    const led = this.#databases.flatMap((place) => this.#notLed(place) ?? []);
    return [...led, ...[...this.#problems.values()].map(({ text }) => text)];
  }

  /** Every database has been asked, and each of its streams that can be read here is. */
  ready(): boolean {
    return this.#areRequested(this.#databases);
  }

  /** Resolves when that is so, or the signal is aborted. */
  readonly allQueried = (signal: AbortSignal): Promise<void> =>
    this.#untilRequested(this.#databases, signal);

  /** Price books of all streams have been read. */
  pricesKnown(): boolean {
    return this.#pricesKnown;
  }

  /**
   * Works until the signal is aborted, and closes every stream. `epoch` is that of the first database; in each of the others this
   * process works while it leads there as well.
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

  /** Opens the streams of a database as they come, until the signal is aborted; then closes them. */
  async #serve(place: HubDatabase, epoch: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#context;
    // Of two streams with one REGION that of the earlier database counts.
    await this.#untilRequested(this.#databases.slice(0, this.#databases.indexOf(place)), signal);
    while (!signal.aborted) {
      for (const name of await this.#listOf(place.database)) {
        if (signal.aborted) break;
        const isRunning = this.#running.some(
          (one) => one.place === place && one.stream.name.source === name.source,
        );
        if (!isRunning) await this.#open(place, name, { epoch, signal });
      }
      this.#requested.add(place);
      await clock.sleep(POLL_MS, signal).catch(() => undefined);
    }
    const own = this.#running.filter((one) => one.place === place);
    await Promise.all(own.map(({ ended }) => ended));
    this.#requested.delete(place);
  }

  #areRequested(databases: readonly HubDatabase[]): boolean {
    return databases.every(
      (place) => this.#requested.has(place) || this.#notLed(place) !== undefined,
    );
  }

  async #untilRequested(databases: readonly HubDatabase[], signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.#areRequested(databases)) {
      await this.#context.clock.sleep(SOON_MS, signal).catch(() => undefined);
    }
  }

  /** Why nothing of a database is read or fed here at the moment; undefined where this process leads there. */
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
      const parts = { ledger, rollups, adopt, mayAct };
      const stream = await HubStream.open(this.#context, this, name, parts);
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

  /** Ids contain the region, and requests name a stream: neither may be there twice over all databases. */
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

  /** Notes or takes back a problem, and says what is new. */
  #settle(key: string, text: string | undefined, stream?: StreamName): void {
    const before = this.#problems.get(key)?.text;
    if (text === undefined) this.#problems.delete(key);
    else this.#problems.set(key, { text, stream });
    if (text !== undefined && text !== before) this.#context.logger.warn(`[fleet] ${text}`);
  }

  /** The books of all streams by their names, which count as the first stream has them. */
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
