"""Solve a game given by its payoffs, then certify a naive policy.

Odd or even: both players show one or two fingers. The row player wins the sum if it is odd, the
column player if it is even.
"""

import equipoise as eq

game = eq.MatrixGame([[-2, 3], [3, -4]])
solution = eq.solve(game)
print("value to the row player:", round(float(solution.value), 6), "(1/12)")
print("row shows one finger with probability", round(float(solution.policy[0][0]), 6), "(7/12)")
print("NashConv:", float(solution.certificate.nash_conv))

coin = ([0.5, 0.5], [0.5, 0.5])
certificate = eq.certify(game, coin)
print("with coin tosses, row could gain", certificate.gains[0], "and column", certificate.gains[1])
