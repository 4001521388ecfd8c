import pLimit from 'p-limit';
import type { UsageEvent } from '../../model/event.ts';
import type { DeliveryOutcome } from '../destination.ts';
import { failedStep } from '../json-api/answer.ts';
import type { ErrorReports } from './error-reports.ts';
import { type MeterEvent, meterEventOf, reportRounding } from './meter-event.ts';
import { CALL_EVENTS, type MeterEventStream } from './meter-event-stream.ts';
import { meterDisplayName, meterName, type MeterOutcome, usableMeter } from './meters.ts';
import type { StripeSender, StripeSenderOptions } from './send-events.ts';

const CONCURRENT_CALLS = 4;
const DELIVERED: DeliveryOutcome = { kind: 'delivered' };
const NO_CUSTOMER: DeliveryOutcome = { kind: 'provision', reason: 'no customer in Stripe yet' };
const NOT_YET: DeliveryOutcome = {
  kind: 'retry',
  reason: 'error reports, without which nothing goes by the meter event stream, cannot be read yet',
};

interface Addressed {
  readonly index: number;
  readonly event: UsageEvent;
  readonly sent: MeterEvent<string>;
}

/**
 * Sends events by the hundred. Stripe validates them after it accepts them, and puts errors into
 * reports. Where the key may not read reports, events go one by one. So do the events of a refused
 * call, since Stripe then names the wrong event.
 */
export class StreamSender {
  readonly #options;
  /** Ids that the stream may have accepted. Only the stream is known to recognise their repeats. */
  readonly #unknown = new Set<string>();

  constructor(
    options: StripeSenderOptions & {
      readonly stream: Pick<MeterEventStream, 'send'>;
      readonly single: Pick<StripeSender, 'send'>;
      readonly reports: Pick<ErrorReports, 'poll' | 'areReadable'>;
    },
  ) {
    this.#options = options;
  }

  /** `outcomes[i]` belongs to `events[i]`. */
  async send(
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryOutcome[]> {
    const { reports, single } = this.#options;
    await reports.poll(signal);
    const areReadable = reports.areReadable();
    if (areReadable === undefined) return events.map(() => NOT_YET);
    const isStreamed = ({ id }: UsageEvent): boolean => areReadable || this.#unknown.has(id);
    const streamed = events.filter(isStreamed);
    const others = events.filter((event) => !isStreamed(event));
    const outcomes = new Map<UsageEvent, DeliveryOutcome | undefined>();
    const found = [
      await this.#stream(streamed, signal),
      others.length === 0 ? [] : await single.send(others, signal),
    ].flat();
    for (const [index, event] of [...streamed, ...others].entries()) {
      outcomes.set(event, found[index]);
    }
    return events.map((event) => outcomes.get(event) ?? { kind: 'retry', reason: 'not sent' });
  }

  async #stream(
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly (DeliveryOutcome | undefined)[]> {
    const outcomes: (DeliveryOutcome | undefined)[] = [];
    const ready: Addressed[] = [];
    const meters = new Map<string, MeterOutcome>();
    for (const [index, event] of events.entries()) {
      const addressed = await this.#address(event, meters, signal);
      if ('kind' in addressed) outcomes[index] = addressed;
      else ready.push({ index, event, sent: addressed });
    }
    const calls = Array.from({ length: Math.ceil(ready.length / CALL_EVENTS) }, (_, call) =>
      ready.slice(call * CALL_EVENTS, (call + 1) * CALL_EVENTS),
    );
    let stopped: DeliveryOutcome | undefined;
    await pLimit(CONCURRENT_CALLS).map(calls, async (call) => {
      if (stopped !== undefined) return;
      const { outcomes: found, stops } = await this.#call(call, signal);
      stopped ??= stops;
      for (const [position, { index }] of call.entries()) outcomes[index] = found[position];
    });
    return events.map((_, index) => outcomes[index] ?? stopped);
  }

  async #call(
    call: readonly Addressed[],
    signal: AbortSignal,
  ): Promise<{
    readonly outcomes: readonly DeliveryOutcome[];
    /** The outcome of all further events, if Stripe itself or the key has a problem. */
    readonly stops?: DeliveryOutcome;
  }> {
    const { stream, single, name, logger } = this.#options;
    const answer = await stream.send(
      call.map(({ sent }) => sent),
      signal,
    );
    if (answer.kind === 'retry') for (const { event } of call) this.#unknown.add(event.id);
    else for (const { event } of call) this.#unknown.delete(event.id);
    if (answer.kind === 'ok') return { outcomes: call.map(() => DELIVERED) };
    if (answer.kind !== 'refused') {
      const stops = failedStep(answer);
      return { outcomes: call.map(() => stops), stops };
    }
    logger.warn(`[${name}] ${call.length} events go one by one: ${answer.reason}`);
    const events = call.map(({ event }) => event);
    return { outcomes: await single.send(events, signal) };
  }

  /** Returns the event to send, or why it cannot be sent. */
  async #address(
    event: UsageEvent,
    meters: Map<string, MeterOutcome>,
    signal: AbortSignal,
  ): Promise<MeterEvent<string> | DeliveryOutcome> {
    const { name, settings, customers, metricName, logger } = this.#options;
    const customer = customers.idOf(event.tenant);
    if (customer === undefined) return NO_CUSTOMER;
    const named = meterName(event, settings.splitMetersBy);
    const shown = meterDisplayName(metricName(event.metric), event, settings.splitMetersBy);
    const ensured = meters.get(named) ?? (await this.#options.meters.ensure(named, shown, signal));
    meters.set(named, ensured);
    const found = usableMeter(named, ensured);
    if (found.kind === 'rejected') return found;
    if (found.kind !== 'meter') return failedStep(found);
    reportRounding(name, event, logger);
    return meterEventOf(event, found.meter, customer, event.window_start);
  }
}
