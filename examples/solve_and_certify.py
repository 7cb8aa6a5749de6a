"""Solve a game that is written down by hand, then ask what a naive policy would lose.

Odd or even: both show one or two fingers; the row player wins the sum if it is odd, the column
player if it is even.
"""

import equipoise as eq

game = eq.MatrixGame([[-2, 3], [3, -4]])
solution = eq.solve(game)
print("value to the row player:", round(float(solution.value), 6), "(1/12)")
print("row shows one finger with probability", round(float(solution.policy[0][0]), 6), "(7/12)")
print("NashConv:", float(solution.certificate.nash_conv))

coin = ([0.5, 0.5], [0.5, 0.5])
certificate = eq.certify(game, coin)
print("against a coin, row could gain", certificate.gains[0], "and column", certificate.gains[1])
