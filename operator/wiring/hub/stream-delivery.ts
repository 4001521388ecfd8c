import type { DestinationSettings } from '../../config/settings.ts';
import type { Delivery } from '../../delivery/delivery.ts';
import type { ExistingDestination } from '../../delivery/destination-status.ts';
import type { StreamWatch } from '../../fleet/stream-watch.ts';
import type { Ledger, WriteOutcome } from '../../ledger/ledger.ts';
import { errorText } from '../../model/error-text.ts';
import type { HubContext } from './hub-context.ts';

/** A stream that is fed. */
export interface Delivering {
  readonly context: HubContext;
  readonly watch: StreamWatch;
  readonly delivery: Delivery;
  /** As `OpenStreamOutcome.adopt`. */
  readonly adopt: (destination: string) => Promise<WriteOutcome>;
}

/** Those that the hub feeds a stream to: none while its operator feeds all of them, and none of a name that its meter has. */
function wantedOf(
  { settings }: Pick<HubContext, 'settings'>,
  watch: StreamWatch,
): readonly DestinationSettings[] {
  if (watch.report()?.role !== 'meter') return [];
  return notOwn(settings.current().billing.destinations, watch);
}

/** But for those that the meter of a stream feeds itself. */
function notOwn<T extends { readonly name: string }>(
  destinations: readonly T[],
  watch: Pick<StreamWatch, 'report'>,
): readonly T[] {
  const own = new Set(watch.report()?.ownDestinations);
  return destinations.filter(({ name }) => !own.has(name));
}

/** The custom resources as the stream sees them: they get cursors only where the hub feeds it. */
export function existingOf(
  destinations: readonly ExistingDestination[],
  watch: Pick<StreamWatch, 'report'>,
): readonly ExistingDestination[] {
  const others = notOwn(destinations, watch);
  if (watch.report()?.role === 'meter') return others;
  return others.map((destination) => {
    const { startFrom: _, ...unplaced } = destination;
    return unplaced;
  });
}

/** Feeds the stream to the hub's destinations, once they and all streams are known: a customer is that of all streams. */
export async function deliver(
  { context, watch, delivery, adopt }: Delivering,
  signal: AbortSignal,
): Promise<void> {
  const { settings, logger } = context;
  try {
    await context.destinations.ready(signal);
    await context.allAsked(signal);
  } catch (error) {
    if (signal.aborted) return;
    throw error;
  }
  let applied: readonly DestinationSettings[] = [];
  let isOffboarding = false;
  /** What could not be taken over now is so with the next look. */
  const adoptAll = async (wanted: readonly DestinationSettings[]): Promise<boolean> => {
    const isMeter = watch.report()?.role === 'meter';
    const existing = isMeter ? existingOf(context.destinations.existing(), watch) : [];
    for (const { name } of [...wanted, ...existing]) {
      const outcome = await adopt(name);
      if (outcome.kind === 'written') continue;
      logger.warn(`[fleet] ${name}: ${outcome.message}`);
      return false;
    }
    return true;
  };
  const look = async (): Promise<void> => {
    const wanted = wantedOf(context, watch);
    if (!(await adoptAll(wanted))) return;
    const isSame =
      wanted.length === applied.length && wanted.every((one, index) => one === applied[index]);
    if (!isSame) {
      applied = wanted;
      await delivery.apply(wanted);
    }
    // Which resources get a cursor here depends on what the meter reports.
    await delivery.reserve();
    if (watch.report()?.role !== 'meter' || isOffboarding) return;
    isOffboarding = true;
    try {
      await offboardDeparted({ watch, delivery }, (problem) => logger.warn(`[fleet] ${problem}`));
    } catch (error) {
      logger.warn(`[fleet] ${errorText(error)}`);
    } finally {
      isOffboarding = false;
    }
  };
  const endings = [watch.subscribe(() => void look()), settings.subscribe(() => void look())];
  const running = delivery.run(signal);
  await look();
  await running;
  for (const end of endings) end();
}

/** Retires the cursor of a destination after its feeder has ended: the next commit would revive it. */
export async function retire(
  destination: string,
  { context, watch, delivery, ledger }: Delivering & { readonly ledger: Ledger },
): Promise<WriteOutcome> {
  const isOthers =
    watch.report()?.role !== 'meter' || watch.report()?.ownDestinations?.includes(destination);
  const cursor = ledger.cursors().find((one) => one.destination === destination);
  if (isOthers === true || cursor === undefined || cursor.retiredAt !== undefined) {
    return { kind: 'written' };
  }
  await delivery.apply(wantedOf(context, watch));
  return ledger.retireCursor(destination, context.clock.now());
}

/** Hands tenants that have left over to the destinations. Each is asked for durably before the departure is acknowledged. */
async function offboardDeparted(
  { watch, delivery }: Pick<Delivering, 'watch' | 'delivery'>,
  warn: (problem: string) => void,
): Promise<void> {
  for (const departure of watch.departures()) {
    const asked = await delivery.offboard(departure.tenant);
    const outcome = asked.kind === 'failed' ? asked : await watch.acknowledge(departure);
    if (outcome.kind === 'failed') warn(outcome.message);
  }
}
