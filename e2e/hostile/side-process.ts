import { fork } from 'node:child_process';

/** A process beside this one that takes orders one by one, each answered with its number. */
export interface SideProcess {
  /** What it told when it was ready. */
  readonly ready: unknown;
  order(order: object): Promise<unknown>;
  stop(): void;
}

interface Waiting {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (reason: Error) => void;
}

/** Starts a module, and resolves with its first message, the one with the id 0. */
export async function startSideProcess(module: string, given: object): Promise<SideProcess> {
  const child = fork(module, [JSON.stringify(given)]);
  const waiting = new Map<number, Waiting>();
  const answerTo = (id: number): Promise<unknown> =>
    new Promise((resolve, reject) => void waiting.set(id, { resolve, reject }));
  child.on('message', (answer: { readonly id: number }) => {
    waiting.get(answer.id)?.resolve(answer);
    waiting.delete(answer.id);
  });
  child.once('exit', (code, signal) => {
    const reason = new Error(`hostile: ${module}: ended with ${signal ?? code}`);
    for (const { reject } of waiting.values()) reject(reason);
    waiting.clear();
  });
  const ready = await answerTo(0);
  let last = 0;
  return {
    ready,
    order: (order) => {
      if (!child.connected) return Promise.reject(new Error(`hostile: ${module}: not running`));
      last += 1;
      const answer = answerTo(last);
      child.send({ ...order, id: last });
      return answer;
    },
    stop: () => void child.kill(),
  };
}
