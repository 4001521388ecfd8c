import type { UsageEvent } from '../../model/event.ts';
import type { DeliveryOutcome } from '../destination.ts';
import { dealLines } from '../lines.ts';
import type { LagoMetric } from './billable-metrics.ts';
import { type LagoEvent, lagoEvent } from './event-payload.ts';
import type { LagoClient } from './lago-client.ts';
import { sendChunk } from './send-chunk.ts';
import { type ActiveSubscriptions, subscriptionIdOf } from './subscriptions.ts';

/** Lago's own limit of events in a call; its operator can change it. */
export const CALL_EVENTS = 100;
const CONCURRENT_CALLS = 4;
/** Events in one `send`: enough to keep all calls busy. */
export const SEND_EVENTS = CALL_EVENTS * CONCURRENT_CALLS;

export interface SendEventsOptions {
  readonly client: LagoClient;
  readonly subscriptions: ActiveSubscriptions;
  /** Undefined when Lago has no such metric. */
  readonly metric: (code: string) => LagoMetric | undefined;
  /** Why events of a metric cannot be billed. */
  readonly unusable: (code: string) => string | undefined;
}

/**
 * Sends events, several calls at a time. All events of a tenant go through one line of calls, so that
 * their order stays; once a line is in trouble, nothing more goes through it.
 */
export function createSendEvents({ client, subscriptions, metric, unusable }: SendEventsOptions) {
  let callEvents = CALL_EVENTS;

  /** What can be said of an event without sending it: Lago would take it and never bill it. */
  const precheck = (event: UsageEvent): DeliveryOutcome | LagoEvent => {
    const problem = unusable(event.metric);
    if (problem !== undefined) return { kind: 'rejected', reason: problem };
    const field = metric(event.metric)?.field;
    if (field === undefined) {
      const reason = `Lago has no billable metric of this code: metric: "${event.metric}"`;
      return { kind: 'rejected', reason };
    }
    const subscription = subscriptions.find(subscriptionIdOf(event.tenant));
    if (subscription === undefined) return { kind: 'provision', reason: 'no active subscription' };
    const payload = lagoEvent(event, field);
    if (payload.timestamp * 1000 >= subscription.startedAt) return payload;
    const start = new Date(subscription.startedAt).toISOString();
    const reason = `before the subscription began, ${start}, so Lago would never bill it: window_start: "${event.window_start}"`;
    return { kind: 'rejected', reason };
  };

  const sendLine = async (
    line: readonly (readonly [index: number, event: LagoEvent])[],
    outcomes: Map<number, DeliveryOutcome>,
    signal: AbortSignal,
  ): Promise<void> => {
    for (let start = 0; start < line.length; ) {
      const chunk = line.slice(start, start + callEvents);
      const report = await sendChunk(
        client,
        chunk.map(([, event]) => event),
        signal,
      );
      if (report.tooMany && chunk.length > 1) {
        callEvents = Math.max(1, Math.floor(chunk.length / 2));
        continue;
      }
      for (const [position, [index]] of chunk.entries()) {
        const outcome = report.outcomes[position];
        if (outcome !== undefined) outcomes.set(index, outcome);
      }
      const stopped = report.outcomes.find(({ kind }) => kind === 'retry' || kind === 'hold');
      if (stopped !== undefined) {
        for (const [index] of line.slice(start + chunk.length)) outcomes.set(index, stopped);
        return;
      }
      start += chunk.length;
    }
  };

  return async (
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryOutcome[]> => {
    const stale = await subscriptions.refresh(signal);
    if (stale?.kind === 'hold') return events.map(() => stale);
    const outcomes = new Map<number, DeliveryOutcome>();
    const payloads: (readonly [number, LagoEvent])[] = [];
    for (const [index, event] of events.entries()) {
      const checked = precheck(event);
      if ('kind' in checked) outcomes.set(index, checked);
      else payloads.push([index, checked]);
    }
    const lines = dealLines(
      payloads,
      ([, event]) => event.external_subscription_id,
      Math.min(CONCURRENT_CALLS, Math.ceil(payloads.length / callEvents)),
    );
    await Promise.all(lines.map((line) => sendLine(line, outcomes, signal)));
    return events.map((_, index) => outcomes.get(index) ?? { kind: 'retry', reason: 'not sent' });
  };
}
