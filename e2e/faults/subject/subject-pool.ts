import { startSubject, type Subject, type SubjectOptions } from './subject.ts';

/** Processes under test, kept from one life to the next for as long as they live. */
export interface SubjectPool {
  use<T>(faultyDisk: boolean, work: (subject: Subject) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export function createSubjectPool(options: Omit<SubjectOptions, 'faultyDisk'>): SubjectPool {
  const idle = new Map<boolean, Promise<Subject>[]>([
    [true, []],
    [false, []],
  ]);
  const used = new Set<Subject>();
  const start = (faultyDisk: boolean): Promise<Subject> => startSubject({ ...options, faultyDisk });

  return {
    use: async (faultyDisk, work) => {
      const subject = await (idle.get(faultyDisk)?.pop() ?? start(faultyDisk));
      used.add(subject);
      let reusable = false;
      try {
        const result = await work(subject);
        reusable = subject.alive;
        return result;
      } finally {
        used.delete(subject);
        if (reusable) idle.get(faultyDisk)?.push(Promise.resolve(subject));
        else {
          await subject.close();
          // Another one begins to start while nobody waits for it.
          idle.get(faultyDisk)?.push(start(faultyDisk));
        }
      }
    },
    close: async () => {
      const subjects = [...used, ...(await Promise.all([...idle.values()].flat()))];
      await Promise.all(subjects.map((subject) => subject.close()));
    },
  };
}
