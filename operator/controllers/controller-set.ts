import { untilAborted } from '../telemetry/abort.ts';
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
  /** The name of the pod, as the reporting instance of Events. */
  readonly instance: string;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly queueMetrics?: WorkQueueMetrics;
  readonly reflectorMetrics?: ReflectorMetrics;
  readonly timings?: {
    /** Interval between updates of statuses in memory. */
    readonly report?: number;
    /** Interval between writes of one status if only numbers changed. */
    readonly statusInterval?: number;
    /** Interval between reads of the Secrets that a destination names. */
    readonly secrets?: number;
  };
}

/** Controllers that share a connection, a status writer and an Event recorder. */
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

  /** Adds a controller. Call before {@link run}. */
  add<Spec>(kind: ControlledKind<Spec>): Controller<Spec> {
    const controller = new Controller(kind, this.#shared);
    this.#controllers.push(controller);
    return controller;
  }

  /** Runs the controllers and `further` until the signal is aborted. Rejects if one fails. */
  async run(signal: AbortSignal, further: readonly OperatorComponent[] = []): Promise<void> {
    const { host } = this.#shared;
    const ended = new AbortController();
    for (const component of [this.#status, ...further, ...this.#controllers]) {
      host.add(endingWith(component, ended));
    }
    // Rejects only if it is stopped before everything is ready. Closing reports the cause.
    host.start().catch(() => undefined);
    await untilAborted(signal, ended.signal);
    await host.close();
    await this.#events.settled();
  }
}

/** Returns the component; its failure also aborts `ended`. */
function endingWith(component: OperatorComponent, ended: AbortController): OperatorComponent {
  return {
    ready: async (signal) => component.ready?.(signal),
    run: async (signal) => {
      try {
        await component.run(signal);
      } catch (error) {
        ended.abort();
        throw error;
      }
    },
  };
}
