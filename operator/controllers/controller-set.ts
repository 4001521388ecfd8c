import { untilAborted } from '../kubernetes/abort.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { EventRecorder } from '../kubernetes/events.ts';
import type { ReflectorMetrics, WorkQueueMetrics } from '../kubernetes/metrics.ts';
import {
  createOperatorHost,
  type OperatorHost,
  type OperatorComponent,
} from '../kubernetes/operator-base.ts';
import { StatusPublisher } from '../kubernetes/status-publisher.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ControlledKind } from './controlled-kind.ts';
import { Controller } from './controller.ts';

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
  readonly timings?: {
    /** Between looks at what a status should say. */
    readonly report?: number;
    /** Between two writes of one status when only numbers moved. */
    readonly statusInterval?: number;
    /** Between looks at the Secrets that a destination names. */
    readonly secrets?: number;
  };
}

/** Controllers that share a connection, and one writer of statuses and events. */
export class ControllerSet {
  readonly #shared: ConstructorParameters<typeof Controller>[1] & { readonly host: OperatorHost };
  readonly #status: OperatorComponent;
  readonly #events: EventRecorder;
  readonly #controllers: OperatorComponent[] = [];

  constructor(options: ControllerSetOptions) {
    const { connection, clock, random, logger, queueMetrics, timings = {} } = options;
    const status = new StatusPublisher({
      connection,
      clock,
      logger,
      metrics: queueMetrics,
      intervalMs: timings.statusInterval,
    });
    const metrics = options.reflectorMetrics;
    const host = createOperatorHost({ connection, clock, random, logger, metrics });
    this.#status = status;
    this.#events = new EventRecorder(options);
    this.#shared = {
      host,
      status,
      events: this.#events,
      clock,
      logger,
      queueMetrics,
      reportIntervalMs: timings.report,
    };
  }

  /** Before {@link run}. */
  add<Spec>(kind: ControlledKind<Spec>): Controller<Spec> {
    const controller = new Controller(kind, this.#shared);
    this.#controllers.push(controller);
    return controller;
  }

  /** Works until the signal is aborted, `further` parts included; rejects when a controller cannot go on. */
  async run(signal: AbortSignal, further: readonly OperatorComponent[] = []): Promise<void> {
    const { host } = this.#shared;
    const ended = new AbortController();
    for (const part of [this.#status, ...further, ...this.#controllers]) {
      host.add(endingWith(part, ended));
    }
    // Rejects only when it is stopped before everything is ready, which closing tells better.
    host.start().catch(() => undefined);
    await untilAborted(signal, ended.signal);
    await host.close();
    await this.#events.settled();
  }
}

/** The part, with its failure made known at once. */
function endingWith(part: OperatorComponent, ended: AbortController): OperatorComponent {
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
