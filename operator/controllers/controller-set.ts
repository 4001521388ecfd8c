import { untilAborted } from '../kubernetes/abort.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { EventRecorder } from '../kubernetes/events.ts';
import type { ReflectorMetrics, WorkQueueMetrics } from '../kubernetes/metrics.ts';
import { createOperatorHost, type OperatorPart } from '../kubernetes/operator-base.ts';
import { StatusPublisher } from '../kubernetes/status-publisher.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ControlledKind } from './controlled-kind.ts';
import { type Controller, createController } from './controller.ts';

export interface ControllerSetOptions {
  readonly connection: Connection;
  /** Which process reports: the pod's name. */
  readonly instance: string;
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

/** Controllers that share a connection, and one writer of statuses and events. */
export interface ControllerSet {
  /** Before {@link run}. */
  add<Spec>(kind: ControlledKind<Spec>): Controller<Spec>;
  /** Works until the signal is aborted, `further` parts included; rejects when a controller cannot go on. */
  run(signal: AbortSignal, further?: readonly OperatorPart[]): Promise<void>;
}

export function createControllerSet(options: ControllerSetOptions): ControllerSet {
  const { connection, clock, logger, queueMetrics, timings = {} } = options;
  const status = new StatusPublisher({
    connection,
    clock,
    logger,
    ...omitUndefined({ metrics: queueMetrics, intervalMs: timings.statusInterval }),
  });
  const events = new EventRecorder(options);
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
    ...omitUndefined({ queueMetrics, reportIntervalMs: timings.report }),
  };
  const controllers: Pick<Controller<unknown>, 'run' | 'ready'>[] = [];
  return {
    add: (kind) => {
      const controller = createController(kind, shared);
      controllers.push(controller);
      return controller;
    },
    run: async (signal, further = []) => {
      const ended = new AbortController();
      for (const part of [status, ...further, ...controllers]) host.add(endingWith(part, ended));
      // Rejects only when it is stopped before everything is ready, which closing tells better.
      host.start().catch(() => undefined);
      await untilAborted(signal, ended.signal);
      await host.close();
      await events.settled();
    },
  };
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
