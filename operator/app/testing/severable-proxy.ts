import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** A connection to an API server that a test can cut and mend again. */
export interface SeverableProxy {
  /** The kubeconfig, through this proxy. */
  readonly kubeconfig: string;
  /** Ends every connection, and refuses new ones. */
  cut(): Promise<void>;
  restore(): Promise<void>;
}

/** Passes bytes on, so that certificates stay those of the API server. */
export async function severableProxy(kubeconfig: string): Promise<SeverableProxy> {
  const [, host = '', port = ''] =
    /server: ['"]?https:\/\/([^:'"\s]+):(\d+)/.exec(kubeconfig) ?? [];
  const sockets = new Set<Socket>();
  const track = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
  };
  let server: Server | undefined;
  const listen = async (on: number): Promise<number> => {
    const listening = createServer((near) => {
      const far = connect(Number(port), host);
      track(near);
      track(far);
      near.pipe(far).pipe(near);
      near.on('close', () => far.destroy());
      far.on('close', () => near.destroy());
    });
    server = listening;
    await new Promise<void>((resolve) => listening.listen(on, '127.0.0.1', resolve));
    return (listening.address() as AddressInfo).port;
  };
  const own = await listen(0);
  return {
    kubeconfig: kubeconfig.replace(`${host}:${port}`, `127.0.0.1:${own}`),
    cut: async () => {
      const closing = server;
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => closing?.close(resolve));
    },
    restore: async () => {
      await listen(own);
    },
  };
}
