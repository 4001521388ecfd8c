import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestProject } from 'vitest/node';
import { type EphemeralControlPlane, startEphemeralControlPlane } from './ephemeral.ts';
import type { SharedCluster, UserRequest } from './test-cluster.ts';

/**
 * One API server for all tests of a run. It starts when the first test asks for it, so that a run
 * without such tests does not pay for it: the workers ask this process over a loopback address.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  let plane: Promise<EphemeralControlPlane> | undefined;
  const started = (): Promise<EphemeralControlPlane> => {
    plane ??= startEphemeralControlPlane({ audit: true });
    return plane;
  };
  const server = createServer((request, response) => {
    answer(request, started).then(
      (body) => response.end(JSON.stringify(body)),
      (error: unknown) => {
        response.statusCode = 500;
        response.end(error instanceof Error ? error.message : String(error));
      },
    );
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  project.provide('testClusterUrl', `http://127.0.0.1:${port}`);
  return async () => {
    server.close();
    server.closeAllConnections();
    await plane?.then(
      (running) => running.stop(),
      () => {},
    );
  };
}

async function answer(
  request: IncomingMessage,
  started: () => Promise<EphemeralControlPlane>,
): Promise<SharedCluster | { readonly kubeconfig: string }> {
  const plane = await started();
  if (request.method === 'POST') {
    const { name, groups } = await readUser(request);
    return { kubeconfig: await plane.addUser(name, groups) };
  }
  return {
    server: plane.server,
    kubeconfig: plane.kubeconfig,
    kubeconfigPath: plane.kubeconfigPath,
    credentials: plane.credentials,
    directory: plane.directory,
    kubectlPath: plane.kubectl,
  };
}

async function readUser(request: IncomingMessage): Promise<UserRequest> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return JSON.parse(text) as UserRequest;
}
